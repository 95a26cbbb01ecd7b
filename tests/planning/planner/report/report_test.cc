#include "planning/planner/report/report.h"

#include <functional>
#include <nlohmann/json.hpp>

#include "tests/planning/planner/planner_testing.h"

namespace twobw::planner {
namespace {

constexpr double kMi = 1024.0 * 1024;

// Three layers on two nodes of one device each; everything in round numbers.
Problem example(double memory) {
  Problem problem;
  problem.cluster = parse_cluster(
      "{name: two boxes, devices: {x: {memory: 1GiB}}, nodes: [{name: a, devices: x}, {name: b, devices: "
      "x}], "
      "network: {bandwidth: 100MB/s, latency: 1ms}}",
      "c.yaml");
  problem.cluster.kinds[0].memory = memory;
  problem.layers = {{.kind = "embedding", .parameters = 1e6, .tied = 1e6},
                    {.kind = "block", .parameters = 3e6},
                    {.kind = "head", .parameters = 1e6, .tied = 1e6}};
  CostColumn column{.microbatch = 2, .tokens = 1000};
  for (const double seconds : {0.010, 0.020, 0.030}) {
    column.layers.push_back({.forward = seconds,
                             .backward = 2 * seconds,
                             .saved_bytes = 10 * kMi,
                             .output = 1e6,
                             .working = kMi});
  }
  problem.costs = {{.columns = {column}, .step_per_parameter = 1e-9, .modelled = true}};
  problem.batch = 20;
  problem.context = 100;
  return problem;
}

Plan two_stages() {
  Plan plan{.shape = {.schedule = schedule::Kind::TwoBW, .replicas = 1, .microbatch = 2, .microbatches = 8}};
  plan.stages.push_back({.first_layer = 0, .last_layer = 2, .recompute = true, .nodes = {0}, .devices = {0}});
  plan.stages.push_back({.first_layer = 2, .last_layer = 3, .nodes = {1}, .devices = {0}});
  return plan;
}

SearchResult found(const Problem& problem) {
  SearchResult result;
  result.best = evaluate(problem, two_stages());
  result.candidates.push_back({.status = Status::Best, .best = result.best, .ratio = 1});
  result.candidates.push_back({.schedule = schedule::Kind::GPipe,
                               .replicas = 2,
                               .status = Status::Memory,
                               .best = result.best,
                               .reason = "memory of stage 0 by 3.0 GiB"});
  result.candidates.back().best->over = 1;
  result.settings = 12;
  return result;
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Report, ShowsStagesForecastAndBottleneck) {
  const Problem problem = example(1024 * kMi);
  const std::string text = report(problem, found(problem), "gpt", false);
  EXPECT_TRUE(holds(text, "gpt of 4.0M parameters in 3 layers, on two boxes: 2 devices\n")) << text;
  EXPECT_TRUE(holds(text, "Times are MODELLED")) << text;
  EXPECT_TRUE(holds(
      text,
      "2bw: 2 stages x 1 replica, 8 microbatches of 2 sequences an update on each: batch 16 of at most 20; "
      "two gradient buffers\n"))
      << text;
  EXPECT_TRUE(holds(text, "    0  0-1 embedding..block  x on a  30.0 ms   90.0 ms")) << text;
  EXPECT_TRUE(holds(text, "    1  2 head                x on b  30.0 ms   60.0 ms")) << text;
  EXPECT_TRUE(holds(text, "of 1.0 GiB  recomputes  <- bottleneck\n")) << text;
  EXPECT_TRUE(holds(text, "modelled       ")) << text;
  EXPECT_TRUE(holds(text, "memory         stage 0 is tightest, with 10% kept free: weights ")) << text;
  EXPECT_FALSE(holds(text, "why it lost")) << text;
  EXPECT_FALSE(holds(text, "simulated")) << text;
}

TEST(Report, SaysHowManyGradientBuffersWhereThereIsAChoice) {
  const Problem problem = example(1024 * kMi);
  const auto of = [&](const std::function<void(Plan&)>& change) {
    SearchResult result = found(problem);
    change(result.best->plan);
    result.candidates[0].best = result.best;
    return report(problem, result, "gpt", true);
  };
  const std::string one = of([](Plan& plan) { plan.shape.double_buffer_gradients = false; });
  EXPECT_TRUE(holds(one, "batch 16 of at most 20; one gradient buffer\n")) << one;
  EXPECT_TRUE(holds(one, "d=2 b=2 m=8 e=0, one gradient buffer, 1 recompute")) << one;
  EXPECT_FALSE(holds(of([](Plan& plan) { plan.shape.schedule = schedule::Kind::Flush; }), "gradient buffer"));
}

// Rate and ratio of a candidate are both simulated.
TEST(Report, ExplainsByTheFigureThatDecides) {
  const Problem problem = example(1024 * kMi);
  SearchResult result = found(problem);
  result.best->plan.simulated_tokens_per_s = 2000;
  result.candidates.front().best = result.best;
  Candidate second = result.candidates.front();
  second.best->plan.simulated_tokens_per_s = 1500;
  second.best->plan.tokens_per_s = 9000;
  second.status = Status::Slower;
  second.ratio = 0.75;
  second.reason = "25.0% less throughput";
  result.candidates.insert(result.candidates.begin() + 1, second);
  const std::string text = report(problem, result, "gpt", true);
  EXPECT_TRUE(holds(text, "2.0K  100.0%  chosen\n")) << text;
  EXPECT_TRUE(holds(text, "1.5K   75.0%  25.0% less throughput\n")) << text;
  const auto json = nlohmann::json::parse(to_json(problem, result));
  EXPECT_EQ(json["candidates"][1]["tokens_per_s"], 9000);
  EXPECT_EQ(json["candidates"][1]["simulated_tokens_per_s"], 1500);
}

TEST(Report, SaysWhatIsLackingAndWhatWouldHelp) {
  const Problem problem = example(50 * kMi);
  SearchResult result;
  result.infeasibility = {.closest = evaluate(problem, two_stages()),
                          .suggestions = {"two more devices", "bf16"}};
  const std::string text = report(problem, result, "gpt", false);
  EXPECT_TRUE(holds(text, "NO PLAN FITS. The closest lacks ")) << text;
  EXPECT_TRUE(holds(text, " on stage 0: it needs ")) << text;
  EXPECT_TRUE(holds(text, "and 45.0 MiB of 50.0 MiB may be used.\n")) << text;
  EXPECT_TRUE(holds(text, "[!!!!!!!!!!!!!!!!!!!!]")) << text;
  EXPECT_TRUE(holds(text, "What would make it fit, each alone:\n  two more devices\n  bf16\n")) << text;
}

// A microbatch takes 120 ms on stage 0 and 90 ms on stage 1, a transfer 101 ms each way: strict 1F1B of two
// stages has (120 + 90 + 2 * 101) / 2 ms a microbatch. With free links stage 0 and its step set the pace.
TEST(Report, CommunicationIsWhatFreeLinksWouldSave) {
  Problem problem = example(1024 * kMi);
  problem.layers.front().tied = problem.layers.back().tied = 0;  // no exchange of a tie
  problem.cluster.network.bandwidth = 10e6;
  const Plan plan = evaluate(problem, two_stages()).plan;
  EXPECT_NEAR(communication_share(problem, plan), 1 - (120 + 4.0 / 8) / 206, 1e-9);
  problem.cluster.network = kNoLink;
  EXPECT_EQ(communication_share(problem, evaluate(problem, two_stages()).plan), 0);
}

TEST(PlanJson, HoldsThePlan) {
  const Problem problem = example(1024 * kMi);
  const SearchResult result = found(problem);
  const auto json = nlohmann::json::parse(to_json(problem, result));
  EXPECT_EQ(json["plan"]["schedule"], "2bw");
  EXPECT_EQ(json["plan"]["stages"], 2);
  EXPECT_EQ(json["plan"]["double_buffer_gradients"], true);
  EXPECT_EQ(json["plan"]["predict"], true);
  EXPECT_EQ(json["plan"]["tokens_per_s"].get<double>(), result.best->plan.tokens_per_s);
  EXPECT_TRUE(json["plan"]["simulated_tokens_per_s"].is_null());
  EXPECT_EQ(json["plan"]["stage_plans"][1]["first_layer"], 2);
  EXPECT_EQ(json["plan"]["stage_plans"][0]["in_flight"], 2);
  EXPECT_EQ(json["plan"]["stage_plans"][0]["weight_versions"], 2);
  EXPECT_EQ(json["plan"]["stage_plans"][0]["gradient_buffers"], 1);
  EXPECT_EQ(json["plan"]["stage_plans"][1]["gradient_buffers"], 2);
  EXPECT_EQ(json["plan"]["stage_plans"][1]["replicas"][0]["node"], "b");
  EXPECT_EQ(json["plan"]["stage_plans"][0]["memory_bytes"].get<double>(),
            result.best->plan.stages[0].memory.total());
  EXPECT_EQ(json["candidates"].size(), 2u);
  EXPECT_EQ(json["modelled"], true);
  EXPECT_FALSE(json.contains("remedies"));

  SearchResult none;
  none.infeasibility = {.closest = evaluate(problem, two_stages()), .suggestions = {"bf16"}};
  const auto short_of = nlohmann::json::parse(to_json(problem, none));
  EXPECT_TRUE(short_of["plan"].is_null());
  EXPECT_EQ(short_of["remedies"][0], "bf16");
}

TEST(Report, SaysWhatWasLeftOut) {
  const Problem problem = example(1e9);
  SearchResult result = found(problem);
  EXPECT_FALSE(holds(report(problem, result, "gpt", false), "not all plans"));
  EXPECT_TRUE(nlohmann::json::parse(to_json(problem, result))["restriction"].is_null());
  result.exact = false;
  result.restriction = "some";
  EXPECT_TRUE(holds(report(problem, result, "gpt", false), "not all plans were looked at: some"));
  const auto json = nlohmann::json::parse(to_json(problem, result));
  EXPECT_EQ(json["exact"], false);
  EXPECT_EQ(json["restriction"], "some");
}

}  // namespace
}  // namespace twobw::planner
