#include "planning/planner/costs/time_model.h"

#include <gtest/gtest.h>

#include "core/simulator/discrete_events.h"
#include "core/simulator/simulate.h"
#include "planning/planner/costs/estimate.h"
#include "planning/planner/costs/layer_sums.h"
#include "tests/planning/planner/problems.h"

namespace twobw::planner {
namespace {

using schedule::Kind;

// Links of their own, that nothing else uses.
simulator::System system_of(const std::vector<StageTiming>& stages) {
  simulator::System system;
  for (const StageTiming& stage : stages) {
    system.stages.push_back(
        {.forward = stage.forward, .backward = stage.backward, .step = stage.step, .reduce = stage.reduce});
  }
  for (std::size_t r = 0; r + 1 < stages.size(); ++r) {
    const int channel = static_cast<int>(system.channels.size());
    const simulator::Channel link{.latency = stages[r].send - stages[r].busy,
                                  .bandwidth = 1 / stages[r].busy};
    system.channels.insert(system.channels.end(), 2, link);
    system.boundaries.push_back({1, 1, channel, channel + 1});
  }
  return system;
}

// Long after the start: a window may take hundreds of microbatches to fill.
double simulated(const Setting& setting, const std::vector<StageTiming>& stages) {
  const std::int64_t settled = 20 + 400 / setting.shape.microbatches, measured = 60;
  schedule::Spec spec = spec_of(setting, static_cast<int>(stages.size()));
  spec.updates = settled + measured + 2;
  const simulator::System system = system_of(stages);
  simulator::DiscreteEvents events(spec, system, {.batch_ends = true});
  for (std::int64_t batch = 0; batch <= settled + measured; ++batch) events.run_batch();
  return (events.batch_end(0, settled + measured).time - events.batch_end(0, settled).time) / measured;
}

std::vector<StageTiming> equal_stages(int d, double transfer) {
  std::vector<StageTiming> stages(d, {.forward = 1, .backward = 2, .send = transfer, .busy = transfer / 1e6});
  stages.back().send = stages.back().busy = 0;
  return stages;
}

std::vector<StageTiming> random_stages(Dice& dice, double spread) {
  std::vector<StageTiming> stages(dice.integer(1, 7));
  for (StageTiming& stage : stages) {
    stage = {.forward = dice.real(1, 1 + spread), .backward = dice.real(2, 2 + 2 * spread)};
    stage.busy = dice.real(0.01, 1);
    stage.send = stage.busy + dice.real(0, 0.5);
  }
  stages.back().send = stages.back().busy = 0;
  return stages;
}

TEST(TimeModel, AgreesWithTheListsForAnyStagesUnderTwoBW) {
  Dice dice(1);
  for (int i = 0; i < 100; ++i) {
    const std::vector<StageTiming> stages = random_stages(dice, 1);
    const int d = static_cast<int>(stages.size());
    Setting setting{
        .shape = {
            .schedule = Kind::TwoBW, .microbatch = 1, .microbatches = 1, .extra = dice.integer(0, 2 * d)}};
    setting.shape.microbatches = schedule::smallest_microbatches(spec_of(setting, d)) + dice.integer(0, 5);
    EXPECT_NEAR(update_seconds(setting, stages) / simulated(setting, stages), 1, 1e-6) << "case " << i;
  }
}

TEST(TimeModel, AgreesWithTheListsForEqualStagesWithOneGradientBuffer) {
  for (int w : {1, 2}) {
    for (int d = 1; d <= 6; ++d) {
      for (int m = std::max(1, d - 1); m <= 10; ++m) {
        for (double reduce : {0.0, 0.75, 4.0}) {
          Setting setting{.shape = {.schedule = Kind::TwoBW,
                                    .replicas = w,
                                    .microbatch = 1,
                                    .microbatches = m,
                                    .double_buffer_gradients = false,
                                    .predict = false}};
          std::vector<StageTiming> stages = equal_stages(d, 1e-9);
          for (StageTiming& stage : stages) {
            stage.step = 0.5;
            stage.reduce = w > 1 ? reduce : 0;
          }
          const double ratio = update_seconds(setting, stages) / simulated(setting, stages);
          EXPECT_NEAR(ratio, 1, 1e-6) << "w=" << w << " d=" << d << " m=" << m << " reduce=" << reduce;
        }
      }
    }
  }
}

// One microbatch hides the sum of the gradients that they predict from.
TEST(TimeModel, AgreesWithTheListsForEqualReplicasThatPredict) {
  for (int d = 1; d <= 6; ++d) {
    for (int m = 2 * d + 1; m <= 3 * d + 4; ++m) {
      for (double reduce : {0.0, 0.75, 3.0, 4.0}) {
        const Setting setting{
            .shape = {.schedule = Kind::TwoBW, .replicas = 2, .microbatch = 1, .microbatches = m}};
        std::vector<StageTiming> stages = equal_stages(d, 1e-9);
        for (StageTiming& stage : stages) stage.reduce = reduce;
        const double ratio = update_seconds(setting, stages) / simulated(setting, stages);
        EXPECT_NEAR(ratio, 1, 1e-6) << "d=" << d << " m=" << m << " reduce=" << reduce;
      }
    }
  }
}

TEST(TimeModel, IsNeverTooLowWithOneGradientBufferAndCloseForBalancedStages) {
  Dice dice(5);
  for (int i = 0; i < 200; ++i) {
    const bool balanced = i % 2 == 0;
    const std::vector<StageTiming> stages = random_stages(dice, balanced ? 0.1 : 1);
    const int d = static_cast<int>(stages.size());
    Setting setting{.shape = {.schedule = Kind::TwoBW,
                              .microbatch = 1,
                              .microbatches = 1,
                              .extra = dice.integer(0, 1) * (d - 1),
                              .double_buffer_gradients = false}};
    const int least = schedule::smallest_microbatches(spec_of(setting, d));
    setting.shape.microbatches = balanced ? dice.integer(2, 4) * d : least + dice.integer(0, 2 * d);
    const double ratio = update_seconds(setting, stages) / simulated(setting, stages);
    EXPECT_GE(ratio, 1 - 1e-9) << "case " << i;
    EXPECT_LE(ratio, balanced ? 1.07 : 1.3) << "case " << i;
    Setting two = setting;
    two.shape.double_buffer_gradients = true;
    EXPECT_LE(update_seconds(two, stages), update_seconds(setting, stages)) << "case " << i;
  }
}

TEST(TimeModel, AgreesWithTheListsUnderGPipeAndSequential) {
  Dice dice(2);
  for (int i = 0; i < 100; ++i) {
    std::vector<StageTiming> stages = random_stages(dice, 1);
    for (StageTiming& stage : stages) stage.step = 0.5;
    const int m = dice.integer(1, 12);
    for (Kind kind : {Kind::GPipe, Kind::Sequential}) {
      const Setting setting{.shape = {.schedule = kind, .microbatch = 1, .microbatches = m}};
      EXPECT_NEAR(update_seconds(setting, stages) / simulated(setting, stages), 1, 1e-9) << "case " << i;
    }
  }
}

TEST(TimeModel, IsNeverTooLowUnderFlushAndCloseForBalancedStages) {
  Dice dice(3);
  for (int i = 0; i < 200; ++i) {
    const bool balanced = i % 2 == 0;
    const std::vector<StageTiming> stages = random_stages(dice, balanced ? 0.1 : 1);
    const int d = static_cast<int>(stages.size());
    const Setting setting{.shape = {.schedule = Kind::Flush,
                                    .microbatch = 1,
                                    .microbatches = dice.integer(1, 4) * (balanced ? d : 1),
                                    .extra = dice.integer(0, 1) * (d - 1)}};
    const double ratio = update_seconds(setting, stages) / simulated(setting, stages);
    EXPECT_GE(ratio, 1 - 1e-9) << "case " << i;
    EXPECT_LE(ratio, balanced ? 1.06 : 1.3) << "case " << i;
  }
}

TEST(TimeModel, APredictionIsPartOfTheStep) {
  const CostTable costs{.step_per_parameter = 3, .predict_per_parameter = 2};
  EXPECT_EQ(step_seconds(costs, {.shape = {.schedule = Kind::TwoBW}}), 5);
  EXPECT_EQ(step_seconds(costs, {.shape = {.schedule = Kind::TwoBW, .predict = false}}), 3);
  EXPECT_EQ(step_seconds(costs, {.shape = {.schedule = Kind::Flush}}), 3);
}

TEST(TimeModel, TheLeastSlackThatHidesTheReductionsIsFound) {
  const Setting setting{.shape = {.schedule = Kind::TwoBW, .microbatch = 1, .microbatches = 10}};
  std::vector<StageTiming> stages = equal_stages(4, 0);
  EXPECT_EQ(slack_that_hides(setting, stages), 1);
  stages[0].reduce = 6;
  EXPECT_EQ(slack_that_hides(setting, stages), 2);
  stages[3].reduce = 21;  // 7 microbatches, of which it has 3 more than stage 0
  EXPECT_EQ(slack_that_hides(setting, stages), 4);
  stages[3].reduce = 22;
  EXPECT_EQ(slack_that_hides(setting, stages), 10);  // no room: all on predicted weights
  EXPECT_EQ(slack_that_hides({.shape = {.schedule = Kind::Flush, .microbatches = 10}}, stages), 1);
}

// Two stages on the problem's devices, their nodes by replica.
Plan two_stages(const std::vector<int>& first, const std::vector<int>& second) {
  Plan plan{.shape = {.schedule = Kind::TwoBW,
                      .replicas = static_cast<int>(first.size()),
                      .microbatch = 1,
                      .microbatches = 4}};
  const std::vector<int> devices(first.size(), 0);
  plan.stages = {{.first_layer = 0, .last_layer = 1, .nodes = first, .devices = devices},
                 {.first_layer = 1, .last_layer = 2, .nodes = second, .devices = devices}};
  return plan;
}

TEST(TimeModel, ReplicasShareALinkThatIsShared) {
  Problem problem = uniform_problem(2, 8, 2);  // 1e5 bytes go from layer to layer
  problem.cluster.network = {.latency = 0.5, .bandwidth = 1e5, .shared = false};
  const auto send = [&](const std::vector<int>& first, const std::vector<int>& second) {
    return evaluate(problem, two_stages(first, second)).plan.stages[0].send;
  };
  EXPECT_DOUBLE_EQ(send({0, 0, 0}, {1, 1, 1}), 0.5 + 1);
  problem.cluster.network.shared = true;
  EXPECT_DOUBLE_EQ(send({0, 0, 0}, {1, 1, 1}), 0.5 + 3);
  EXPECT_DOUBLE_EQ(send({0}, {1}), 0.5 + 1);
  EXPECT_EQ(send({0, 0, 0}, {0, 0, 0}), 0);         // inside a node links are free here
  EXPECT_DOUBLE_EQ(send({0, 1}, {1, 0}), 0.5 + 1);  // each leaves another node
}

TEST(TimeModel, ReplicasReduceOverTheLinksTheyHave) {
  const LinkSpec fast{.latency = 0, .bandwidth = 100}, slow{.latency = 1, .bandwidth = 10};
  const auto seconds = [&](Site site, const LinkSpec& network) {
    return all_reduce(network, site, 400).seconds;
  };
  EXPECT_EQ(seconds({.inside = fast}, slow), 0);
  // A ring of 4 passes 3/4 of the bytes twice.
  EXPECT_DOUBLE_EQ(seconds({.per_node = 4, .inside = fast}, slow), 2 * 3 * (400 / 4) / 100.0);
  LinkSpec bus = fast;
  bus.shared = true;
  EXPECT_DOUBLE_EQ(seconds({.per_node = 4, .inside = bus}, slow), 4 * 2 * 3 * (400 / 4) / 100.0);
  // Each node's devices have links of their own to the other node, or share one.
  EXPECT_DOUBLE_EQ(seconds({.nodes = 2, .per_node = 4, .inside = fast}, slow), 6 + 2 * (1 + 200 / 40.0));
  LinkSpec card = slow;
  card.shared = true;
  EXPECT_DOUBLE_EQ(seconds({.nodes = 2, .per_node = 4, .inside = fast}, card), 6 + 2 * (1 + 200 / 10.0));
  // The card is busy while it sends.
  EXPECT_DOUBLE_EQ(all_reduce(card, {.nodes = 2, .per_node = 4, .inside = fast}, 400).busy, 2 * 200 / 10.0);
}

TEST(TimeModel, TheTieIsExchangedBetweenTheNodesOfItsEnds) {
  Problem problem = uniform_problem(2, 4, 2);
  problem.layers.front().tied = problem.layers.back().tied = 1e5;
  problem.cluster.network = {.latency = 0.5, .bandwidth = 1e5};
  EXPECT_EQ(evaluate(problem, two_stages({0}, {0})).plan.stages[0].reduce, 0);
  const Plan apart = evaluate(problem, two_stages({0}, {1})).plan;
  EXPECT_DOUBLE_EQ(apart.stages[0].reduce, 0.5 + 4);
  EXPECT_EQ(apart.stages[1].reduce, 0);
}

TEST(TimeModel, ForecastsOfAPlanFitTogether) {
  Problem problem = uniform_problem(1, 4, 2);
  problem.context = 10;
  problem.margin = 0.25;
  problem.cluster.kinds[0].memory = 40e6;
  const Estimate estimate = evaluate(problem, two_stages({0, 0}, {0, 0}));
  const Plan& plan = estimate.plan;
  EXPECT_DOUBLE_EQ(plan.update_seconds, 4 * 3);
  EXPECT_DOUBLE_EQ(plan.sequences_per_s, 2.0 * 4 / 12);
  EXPECT_DOUBLE_EQ(plan.tokens_per_s, 10 * plan.sequences_per_s);
  EXPECT_DOUBLE_EQ(plan.utilisation, 1);
  EXPECT_FALSE(plan.modelled);
  // The first stage keeps two versions, the last one; both two gradients.
  EXPECT_EQ(estimate.tightest, 0);
  EXPECT_DOUBLE_EQ(estimate.over, plan.stages[0].memory.total() - 30e6);
  EXPECT_DOUBLE_EQ(estimate.footprint, 2 * (plan.stages[0].memory.total() + plan.stages[1].memory.total()));
}

// The first stage of the plan has 1e6 parameters: of 4 bytes they take 4 s to a neighbour in a ring of two,
// and as long back.
TEST(TimeModel, ReplicasThatShareTheStateSumHalfAndHandOutTheirWeights) {
  Problem problem = uniform_problem(1, 4, 2);
  problem.costs[0].step_per_parameter = 1e-6;
  problem.costs[0].predict_per_parameter = 5e-7;
  problem.cluster.nodes[0].link = {.bandwidth = 5e5};
  Plan plan = two_stages({0, 0}, {0, 0});
  const auto first = [&] { return evaluate(problem, plan).plan.stages[0]; };
  EXPECT_DOUBLE_EQ(first().reduce, 8);
  EXPECT_DOUBLE_EQ(first().step, 1.5);
  plan.shape.shard_state = true;
  plan.shape.double_buffer_gradients = false;  // so nothing runs on true weights
  EXPECT_DOUBLE_EQ(first().reduce, 4);
  EXPECT_DOUBLE_EQ(first().step, 0.75 + 4);  // of P alone
  problem.state.weights = 2;
  EXPECT_DOUBLE_EQ(first().step, 0.75 + 2);  // 4 + 4 + 2 bytes a parameter, with the partial sum
  plan.shape.double_buffer_gradients = true;
  problem.fixed.step_slack = 1;
  EXPECT_DOUBLE_EQ(first().step, 0.75 + 2 + 2);  // and of W
  plan.shape.predict = false;
  EXPECT_DOUBLE_EQ(first().step, 0.5 + 2);
  plan.shape.schedule = Kind::Flush;
  EXPECT_DOUBLE_EQ(first().step, 0.5 + 2);
  EXPECT_DOUBLE_EQ(first().reduce, 4);
}

TEST(LayerSums, AreSumsOverLayersAndKnowTies) {
  std::vector<LayerShape> shapes = {{.parameters = 10, .tied = 8, .takes = {architecture::Field::Tokens}},
                                    {.parameters = 5, .takes = {architecture::Field::Lengths}},
                                    {.parameters = 9, .tied = 8, .takes = architecture::kTokenLoss}};
  CostColumn column{.microbatch = 4, .tokens = 300};
  for (double x : {1.0, 2.0, 4.0}) {
    column.layers.push_back({.forward = x,
                             .backward = 2 * x,
                             .saved_bytes = 3 * x,
                             .kept = x,
                             .output = 4 * x,
                             .working = 20 / x});
  }
  const LayerSums sums(shapes, column);
  const StageLoad all = sums.of(0, 3), front = sums.of(0, 2), last = sums.of(2, 3), middle = sums.of(1, 2);
  EXPECT_EQ(all.forward, 7);
  EXPECT_EQ(all.backward, 14);
  // The last layer's output is not the stage's to keep. While a layer works, those after it save nothing.
  EXPECT_EQ(all.saved_bytes, 3 + 6 + 12 - 4);
  EXPECT_EQ(all.working, 5);
  EXPECT_EQ(front.saved_bytes, 3 + 6 - 2);
  EXPECT_EQ(front.working, (3 - 1 + 20) - (3 + 6 - 2));
  EXPECT_EQ(middle.saved_bytes, 6 - 2);
  EXPECT_EQ(middle.working, 10);
  EXPECT_EQ(all.input, 0);
  EXPECT_EQ(all.output, 0);
  EXPECT_EQ(all.tokens, 2 * 300 + 4 * 8 + 8);
  EXPECT_EQ(front.tokens, 300 + 4 * 8);
  EXPECT_EQ(all.parameters, 24 - 8);
  EXPECT_EQ(all.gradient_parameters, 24);
  EXPECT_EQ(all.tied, 0);
  EXPECT_EQ(front.parameters, 15);
  EXPECT_EQ(front.output, 8);
  EXPECT_EQ(front.tied, 8);
  EXPECT_EQ(last.input, 8);
  EXPECT_EQ(last.tied, 8);
  EXPECT_EQ(middle.tied, 0);
  EXPECT_EQ(middle.input, 4);
}

}  // namespace
}  // namespace twobw::planner
