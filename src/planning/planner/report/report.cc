#include "planning/planner/report/report.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

#include "core/base/text.h"

namespace twobw::planner {
namespace {

constexpr int kBar = 20;  // columns

std::string plural(std::int64_t count, const std::string& noun, const char* ending = "s") {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : ending);
}

std::string milliseconds(double seconds) {
  const double value = 1e3 * seconds;
  return fmt::format("{:.{}f} ms", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

std::string percent(double part) {
  return fmt::format("{:.1f}%", 100 * part);
}

// [#####...............]: used part of a device's memory; all ! if it exceeds the capacity.
std::string bar(double part) {
  if (part > 1) return "[" + std::string(kBar, '!') + "]";
  const int full = static_cast<int>(std::lround(part * kBar));
  return "[" + std::string(static_cast<std::size_t>(full), '#') +
         std::string(static_cast<std::size_t>(kBar - full), '.') + "]";
}

std::string layers_of(const Problem& problem, const StagePlan& stage) {
  const std::string& first = problem.layers[static_cast<std::size_t>(stage.first_layer)].kind;
  const std::string& last = problem.layers[static_cast<std::size_t>(stage.last_layer - 1)].kind;
  if (stage.last_layer - stage.first_layer == 1) return fmt::format("{} {}", stage.first_layer, first);
  return fmt::format("{}-{} {}..{}", stage.first_layer, stage.last_layer - 1, first, last);
}

std::size_t bottleneck(const Plan& plan) {
  const auto busiest = std::ranges::max_element(plan.stages, {}, &StagePlan::busy);
  return static_cast<std::size_t>(busiest - plan.stages.begin());
}

std::string stage_table(const Problem& problem, const Plan& plan) {
  const bool recomputes = std::ranges::any_of(plan.stages, &StagePlan::recompute);
  TextTable table({"stage", "layers", "device", "forward", "backward", "busy", "memory", "", ""});
  table.align_right({0, 3, 4, 5, 7});
  for (std::size_t r = 0; r < plan.stages.size(); ++r) {
    const StagePlan& stage = plan.stages[r];
    const double memory = stage.memory.total();
    std::string notes = "of " + format_bytes(stage.capacity);
    if (recomputes && stage.recompute) notes += "  recomputes";
    if (plan.stages.size() > 1 && r == bottleneck(plan)) notes += "  <- bottleneck";
    table.add({std::to_string(r), layers_of(problem, stage), describe_devices(problem.cluster, stage),
               milliseconds(stage.forward), milliseconds(stage.backward), percent(stage.busy),
               bar(memory / stage.capacity), format_bytes(memory), notes});
  }
  return table.text();
}

// Empty if the schedule has one gradient buffer anyway.
std::string gradient_buffers(const Plan& plan) {
  schedule::Spec spec{.shape = plan.shape};
  if (schedule::has_second_gradient(spec))
    return plan.shape.defer_tied_update ? "two gradient buffers, late tie" : "two gradient buffers";
  spec.shape.double_buffer_gradients = true;
  return schedule::has_second_gradient(spec) ? "one gradient buffer" : "";
}

std::string setting_line(const Problem& problem, const Plan& plan) {
  const int sequences = plan.shape.microbatch * plan.shape.microbatches * plan.shape.replicas;
  const std::string gradients = gradient_buffers(plan);
  return fmt::format("{}: {} x {}, {} of {} an update on each: batch {} of at most {}{}{}{}\n",
                     schedule::name(plan.shape.schedule), plural(std::ssize(plan.stages), "stage"),
                     plural(plan.shape.replicas, "replica"),
                     plural(plan.shape.microbatches, "microbatch", "es"),
                     plural(plan.shape.microbatch, "sequence"), sequences, problem.batch,
                     plan.shape.extra > 0 ? fmt::format("; {} extra in flight", plan.shape.extra) : "",
                     gradients.empty() ? "" : "; " + gradients,
                     plan.shape.shards() ? "; replicas share the optimizer's state" : "");
}

// Empty where nothing is predicted.
std::string prediction_line(const Plan& plan) {
  const schedule::Spec spec{.shape = plan.shape};
  if (!plan.shape.predicts()) return "";
  return fmt::format(
      "prediction     from the first {}{}\n", schedule::describe_prediction(spec),
      schedule::predicts_well(spec)
          ? ""
          : "; less than half on the first stage: expect a higher loss than under flush, and take "
            "more microbatches if you can");
}

std::string memory_line(const Problem& problem, const Estimate& estimate) {
  const StagePlan& stage = estimate.plan.stages[static_cast<std::size_t>(estimate.tightest)];
  std::vector<std::string> terms;
  for (int term = 0; term < kTerms; ++term) {
    const double bytes = stage.memory[static_cast<Term>(term)];
    if (bytes > 0) terms.push_back(fmt::format("{} {}", name(static_cast<Term>(term)), format_bytes(bytes)));
  }
  return fmt::format("memory         stage {} is tightest, with {:.0f}% kept free: {}\n", estimate.tightest,
                     100 * problem.margin, fmt::join(terms, ", "));
}

std::string communication_line(const Problem& problem, const Plan& plan) {
  double send = 0, reduce = 0;
  for (const StagePlan& stage : plan.stages) {
    send = std::max(send, stage.send);
    reduce = std::max(reduce, stage.reduce);
  }
  if (send == 0 && reduce == 0) return "communication  none\n";
  std::vector<std::string> parts;
  if (send > 0) parts.push_back(fmt::format("the longest transfer takes {}", milliseconds(send)));
  if (reduce > 0) parts.push_back(fmt::format("summing gradients takes {} an update", milliseconds(reduce)));
  return fmt::format("communication  {} of an update: {}\n", percent(communication_share(problem, plan)),
                     fmt::join(parts, ", "));
}

std::string forecast(const Problem& problem, const Estimate& estimate) {
  const Plan& plan = estimate.plan;
  std::string text =
      fmt::format("{}  {} tokens/s: {:.4g} sequences/s, an update in {}, devices busy {}\n",
                  plan.modelled ? "modelled     " : "forecast     ", format_count(plan.tokens_per_s),
                  plan.sequences_per_s, format_duration(plan.update_seconds), percent(plan.utilisation));
  if (plan.simulated_tokens_per_s > 0) {
    text += fmt::format("simulated      {} tokens/s ({:+.1f}%)\n", format_count(plan.simulated_tokens_per_s),
                        100 * (plan.simulated_tokens_per_s / plan.tokens_per_s - 1));
  }
  return text + communication_line(problem, plan) + prediction_line(plan) + memory_line(problem, estimate);
}

std::string infeasibility_text(const Problem& problem, const Infeasibility& infeasibility) {
  const Estimate& closest = infeasibility.closest;
  const StagePlan& stage = closest.plan.stages[static_cast<std::size_t>(closest.tightest)];
  std::string text = fmt::format(
      "NO PLAN FITS. The closest lacks {} on stage {}: it needs {}, and {} of {} may be used.\n\n",
      format_bytes(closest.over), closest.tightest, format_bytes(stage.memory.total()),
      format_bytes(stage.capacity * (1 - problem.margin)), format_bytes(stage.capacity));
  text += setting_line(problem, closest.plan) + "\n" + stage_table(problem, closest.plan) + "\n" +
          memory_line(problem, closest);
  if (infeasibility.suggestions.empty()) return text;
  text += "\nWhat would make it fit, each alone:\n";
  for (const std::string& suggestion : infeasibility.suggestions) text += fmt::format("  {}\n", suggestion);
  return text;
}

// "d=4 b=2 m=16 e=1, one gradient buffer, 2 recompute".
std::string best_of(const Candidate& candidate) {
  if (!candidate.best) return "none";
  const Plan& plan = candidate.best->plan;
  const auto again = std::ranges::count_if(plan.stages, &StagePlan::recompute);
  return fmt::format("d={} b={} m={} e={}{}{}{}", plan.stages.size(), plan.shape.microbatch,
                     plan.shape.microbatches, plan.shape.extra,
                     plan.shape.double_buffer_gradients ? "" : ", one gradient buffer",
                     plan.shape.defer_tied_update ? ", late tie" : "",
                     again == 0                         ? ""
                     : again == std::ssize(plan.stages) ? ", all recompute"
                                                        : fmt::format(", {} recompute", again));
}

std::string family_table(const SearchResult& result) {
  TextTable table({"candidate", "its best plan", "tokens/s", "", "why it lost"});
  table.align_right({2, 3});
  for (const Candidate& candidate : result.candidates) {
    const bool fits = candidate.best && candidate.best->fits();
    table.add({name(candidate), best_of(candidate),
               fits ? format_count(candidate.best->plan.best_known_tokens_per_s()) : "-",
               fits ? percent(candidate.ratio) : "-",
               candidate.status == Status::Best ? "chosen" : candidate.reason});
  }
  return table.text();
}

}  // namespace

std::string describe_devices(const Cluster& cluster, const StagePlan& stage) {
  const std::string& kind = cluster.kinds[static_cast<std::size_t>(stage.kind)].name;
  const std::set<int> nodes(stage.nodes.begin(), stage.nodes.end());
  const std::string count = stage.nodes.size() > 1 ? fmt::format("{} x ", stage.nodes.size()) : "";
  if (cluster.nodes.size() == 1) return count + kind;
  const auto name = [&](int node) { return cluster.nodes[static_cast<std::size_t>(node)].name; };
  const std::string where = nodes.size() == 1
                                ? name(*nodes.begin())
                                : fmt::format("{}..{}", name(*nodes.begin()), name(*nodes.rbegin()));
  return fmt::format("{}{} on {}", count, kind, where);
}

double parameter_count(const Problem& problem) {
  double count = 0;
  for (const LayerShape& layer : problem.layers) count += layer.parameters - layer.tied / 2;
  return count;
}

double communication_share(const Problem& problem, const Plan& plan) {
  Problem free = problem;
  free.cluster.network = kNoLink;
  for (Node& node : free.cluster.nodes) node.link = kNoLink;
  return 1 - evaluate(free, plan).plan.update_seconds / plan.update_seconds;
}

std::string report(const Problem& problem, const SearchResult& result, const std::string& model,
                   bool explain) {
  std::string text = fmt::format("{} of {} parameters in {} layers, on {}: {}\n", model,
                                 format_count(parameter_count(problem)), problem.layers.size(),
                                 problem.cluster.name, plural(problem.cluster.device_count(), "device"));
  if (std::ranges::any_of(problem.costs, &CostTable::modelled)) {
    text +=
        "Times are MODELLED from the devices' stated figures, not measured; `twobw profile` measures them.\n";
  }
  text += "\n";
  if (result.best) {
    text += setting_line(problem, result.best->plan) + "\n" + stage_table(problem, result.best->plan) + "\n" +
            forecast(problem, *result.best);
  } else if (result.infeasibility) {
    text += infeasibility_text(problem, *result.infeasibility);
  } else {
    text += "NO PLAN IS POSSIBLE with the fixed settings.\n";
    explain = true;
  }
  if (!result.exact)
    text += fmt::format("search         not all plans were looked at: {}\n", result.restriction);
  if (explain) {
    text += fmt::format("\nLooked at {} settings and {} stages.\n\n", result.settings, result.stages);
    text += family_table(result);
  }
  return text;
}

}  // namespace twobw::planner
