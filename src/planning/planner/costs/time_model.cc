#include "planning/planner/costs/time_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/base/error.h"
#include "planning/planner/costs/shared_links.h"

namespace twobw::planner {
namespace {

using schedule::Kind;

constexpr double kNoUpdate = std::numeric_limits<double>::infinity();

// Seconds of one microbatch alone, through all stages and back.
double round_trip(std::span<const StageTiming> stages) {
  double seconds = 0;
  for (const StageTiming& stage : stages) seconds += stage.compute() + 2 * stage.send;
  return seconds;
}

// From the last stage to the first.
double way_back(std::span<const StageTiming> stages) {
  double seconds = 0;
  for (const StageTiming& stage : stages) seconds += stage.backward + stage.send;
  return seconds;
}

// The use of links by all nodes, and what follows from it for each stage and for the tie.
struct Traffic {
  double microbatch = 0, update = 0;  // of the busiest node
  LinkUse summing;                    // node that sends most for sums and ties
  std::vector<double> queues;         // that each stage's sum waits for
  LinkUse first;                      // node
  Way way;
  int nodes = 1;
  std::vector<int> node_of;      // each stage, counted from the last
  std::vector<char> sends_once;  // whether each node sends sums or ties
};

Traffic traffic_of(const Setting& setting, std::span<const StageTiming> stages, Sharing sharing) {
  const int d = static_cast<int>(std::ssize(stages));
  const schedule::Spec spec = spec_of(setting, d);
  Traffic traffic{.queues = std::vector<double>(d), .node_of = std::vector<int>(d)};
  if (sharing == Sharing::None) return traffic;
  LinkUse& node = traffic.first;
  const auto close = [&] {
    traffic.microbatch = std::max(traffic.microbatch, node.microbatch());
    traffic.update = std::max(traffic.update, node.update(setting));
    if (node.besides(setting) > traffic.summing.besides(setting)) traffic.summing = node;
    traffic.sends_once.push_back(node.besides(setting) > 0);
  };
  for (int r = d - 1, before = 0; r >= 0; --r) {
    const StageTiming& stage = stages[r];
    if (stage.leaves) {
      complete(stage, node);
      close();
      node = {};
      ++traffic.nodes;
    }
    const int in_flight = schedule::in_flight_bound(spec, r);
    traffic.queues[r] = join(setting, stage, in_flight - before, node);
    traffic.way.add(stage, sharing == Sharing::All ? in_flight - before : 1);
    traffic.node_of[r] = traffic.nodes - 1;
    before = in_flight;
  }
  close();
  return traffic;
}

// The last sum and step of an update that all stages end with.
double longest_tail(std::span<const StageTiming> stages, const Traffic& traffic) {
  double longest = 0;
  for (std::size_t r = 0; r < stages.size(); ++r) {
    longest = std::max(longest, traffic.queues[r] + stages[r].reduce + stages[r].tie + stages[r].step);
  }
  return longest;
}

// The stage with the queue before its sum.
StageTiming queued(StageTiming stage, double queue) {
  stage.reduce += queue;
  return stage;
}

// P, with loops only through stages that may have to wait for room: the most seconds of a loop for each of
// the microbatches that pass it, found as the P that no loop exceeds. The loop that exceeds it most gives the
// next one; a few are enough.
double period(const Setting& setting, std::span<const StageTiming> stages) {
  const int d = static_cast<int>(std::ssize(stages));
  const schedule::Spec spec = spec_of(setting, d);
  const bool flush = setting.shape.schedule == Kind::Flush;
  double longest = 0;
  for (const StageTiming& stage : stages) longest = std::max({longest, stage.compute(), stage.busy});
  struct Loop {
    double seconds = 0;
    int microbatches = 0;
    double beyond(double pace) const { return seconds - microbatches * pace; }
  };
  while (true) {
    Loop worst;
    Loop from;  // the worst loop that begins at a stage
    for (int r = d - 1, behind = 0; r >= 0; --r) {
      const int room = schedule::in_flight_bound(spec, r);
      const Loop alone{stages[r].compute(), 1};
      const Loop longer{alone.seconds + 2 * stages[r].send + from.seconds, room - behind + from.microbatches};
      from = r < d - 1 && longer.beyond(longest) > alone.beyond(longest) ? longer : alone;
      behind = room;
      if (flush && room >= setting.shape.microbatches) continue;
      if (from.beyond(longest) > worst.beyond(longest)) worst = from;
    }
    if (worst.microbatches == 0) return longest;
    const double pace = worst.seconds / worst.microbatches;
    if (pace <= longest) return longest;
    longest = pace;
  }
}

// Seconds that an update takes longer because transfers share the network with sums and ties, each of which
// has as much of it as a transfer: while those pass every crossing from such a node takes twice as long, and
// P is what that makes of it.
double crowding(const Setting& setting, std::span<const StageTiming> stages, const Traffic& traffic,
                double pace) {
  const double besides = traffic.summing.besides(setting), crossing = traffic.summing.crossing;
  if (besides <= 0 || traffic.microbatch <= 0) return 0;
  std::vector<StageTiming> crowded(stages.begin(), stages.end());
  for (std::size_t r = 0; r + 1 < crowded.size(); ++r) {
    StageTiming& stage = crowded[r];
    if (!stage.leaves || !stage.shares) continue;
    const int ends = traffic.sends_once[traffic.node_of[r]] + traffic.sends_once[traffic.node_of[r + 1]];
    stage.send += stage.busy * ends / 2;
  }
  const double slower = std::max(period(setting, crowded), pace);
  const double all = setting.shape.microbatches * slower;
  const double passing = slower > crossing ? std::min(all, besides / (1 - crossing / slower)) : all;
  return passing * (1 - pace / slower);
}

// Microbatches that run while replicas sum the gradients that they predict from, on a stage that ends a batch
// with `gradients` gradients.
int beside_first_sum(int gradients) {
  return gradients > 1 ? 1 : 0;
}

// Lower bound of an update from a stage that waits so long for the sum it predicts from that the queues of
// other stages run empty. The critical path goes from the end of its wait to another stage, through the
// microbatches there, and back in time for the next sum.
double hold_of_first_sum(const Setting& setting, std::span<const StageTiming> stages, int r, double reduce) {
  const int d = static_cast<int>(std::ssize(stages));
  const schedule::Spec spec = spec_of(setting, d);
  const int m = setting.shape.microbatches, in_flight = schedule::in_flight_bound(spec, r);
  const int others = m - 1 - beside_first_sum(m - in_flight + 1);
  const StageTiming& stage = stages[r];
  const double wait = stage.predict + reduce;
  double longest = 0;
  // The path there and back skips this many microbatches of the other stage.
  const auto meet = [&](int q, double way) {
    const int left_out = std::abs(schedule::in_flight_bound(spec, q) - in_flight);
    if (left_out <= others)
      longest = std::max(longest, wait + way + (others - left_out) * stages[q].compute());
  };
  double way = stage.compute();
  for (int q = r + 1; q < d; ++q) {
    way += 2 * stages[q - 1].send + stages[q].compute();
    meet(q, way);
  }
  way = 2 * stage.compute();
  for (int q = r - 1; q >= 0; --q) {
    way += 2 * stages[q].send;
    meet(q, way);
    way += stages[q].compute();
  }
  return longest;
}

double two_bw(const Setting& setting, std::span<const StageTiming> stages, Sharing sharing) {
  const int d = static_cast<int>(std::ssize(stages));
  const schedule::Spec spec = spec_of(setting, d);
  const Traffic traffic = traffic_of(setting, stages, sharing);
  const double m = setting.shape.microbatches, pace = std::max(period(setting, stages), traffic.microbatch);
  const bool crowded = sharing == Sharing::All;
  const bool sums_twice = setting.shape.predicts() && setting.shape.replicas > 1;
  double update =
      std::max(m * pace + (crowded ? crowding(setting, stages, traffic, pace) : 0), traffic.update);
  const double longer = crowded ? stretch(traffic.summing.crossing, pace) : 0;
  for (int r = 0; r < d; ++r) {
    const StageTiming stage = queued(stages[r], traffic.queues[r] + longer * stages[r].sum);
    const double share =
        update_share(setting, schedule::in_flight_bound(spec, r), schedule::update_slack(spec, r), stage);
    update = std::max(update, m * (stages[r].compute() + share));
    if (crowded && sums_twice && stage.reduce > stage.compute())
      update = std::max(update, hold_of_first_sum(setting, stages, r, stage.reduce));
  }
  if (setting.one_gradient())
    return std::max(update, way_back(stages) + (m - 1) * pace + longest_tail(stages, traffic));
  if (d == 1 || sharing == Sharing::None) return update;
  const int in_flight = schedule::in_flight_bound(spec, 0);
  const TieSetting at{.in_flight = in_flight,
                      .needed_at = in_flight - 1 + schedule::update_slack(spec, 0),
                      .queue = traffic.queues[0],
                      .nodes = traffic.nodes,
                      .pace = pace};
  return std::max(update, hold_of_tie(setting, at, stages.front(), traffic.way, traffic.first));
}

double gpipe(const Setting& setting, std::span<const StageTiming> stages, Sharing sharing) {
  double forward = 0, backward = 0;
  for (const StageTiming& stage : stages) {
    forward = std::max({forward, stage.forward, stage.busy});
    backward = std::max({backward, stage.backward, stage.busy});
  }
  return round_trip(stages) + (setting.shape.microbatches - 1) * (forward + backward) +
         longest_tail(stages, traffic_of(setting, stages, sharing));
}

double flush(const Setting& setting, std::span<const StageTiming> stages, Sharing sharing) {
  const Traffic traffic = traffic_of(setting, stages, sharing);
  return round_trip(stages) +
         (setting.shape.microbatches - 1) * std::max(period(setting, stages), traffic.microbatch) +
         longest_tail(stages, traffic);
}

}  // namespace

double update_share(const Setting& setting, int in_flight, const StageTiming& stage) {
  return update_share(setting, in_flight, setting.shape.microbatches - in_flight + 1, stage);
}

double update_share(const Setting& setting, int in_flight, int slack, const StageTiming& stage) {
  const int gradients = setting.shape.microbatches - in_flight + 1;
  // If a whole batch is predicted, or nothing, the stage steps between two batches; else it only predicts
  // there. With one microbatch in flight it has then begun the sum of the batch before.
  const bool settles = setting.shape.predicts() && slack < gradients;
  const double between = in_flight > 1 ? 0 : settles ? stage.predict : stage.step;
  double wait = std::max(0.0, stage.reduce - slack * stage.compute() - between);
  if (setting.shape.predicts() && setting.shape.replicas > 1) {
    // The sum to predict from is made while one microbatch runs, and passes before the other.
    const double step = stage.step - stage.predict;
    const double partial = stage.reduce - beside_first_sum(gradients) * stage.compute();
    wait = settles ? wait + std::max(0.0, partial) : std::max(wait, partial - step);
    const double both = in_flight > 1 ? step : stage.step;
    wait = std::max(wait, 2 * stage.reduce - gradients * stage.compute() - both);
  }
  return (stage.step + wait) / setting.shape.microbatches;
}

double update_seconds(const Setting& setting, std::span<const StageTiming> stages, Sharing sharing) {
  switch (setting.shape.schedule) {
    case Kind::TwoBW:
      return two_bw(setting, stages, sharing);
    case Kind::Flush:
      return flush(setting, stages, sharing);
    case Kind::GPipe:
      return gpipe(setting, stages, sharing);
    case Kind::Sequential:
      return setting.shape.microbatches * round_trip(stages) +
             longest_tail(stages, traffic_of(setting, stages, sharing));
    case Kind::Stash:
      break;
  }
  TWOBW_ASSERT(false, "no time model of schedule {}", name(setting.shape.schedule));
}

Sharing sharing_of(const Problem& problem) {
  return problem.links ? Sharing::All : Sharing::None;
}

bool stages_wait_for_links(const Problem& problem) {
  if (!problem.links) return false;
  return problem.cluster.network.shared ||
         std::ranges::any_of(problem.cluster.nodes, [](const Node& node) { return node.link.shared; }) ||
         std::ranges::any_of(problem.layers, [](const LayerShape& layer) { return layer.tied > 0; });
}

int slack_that_hides(const Setting& setting, std::span<const StageTiming> stages, Sharing sharing) {
  if (!setting.shape.predicts()) return 1;
  const int d = static_cast<int>(std::ssize(stages)), never = std::max(1, setting.shape.microbatches);
  const schedule::Spec spec = spec_of(setting, d);
  const Traffic traffic = traffic_of(setting, stages, sharing);
  const double pace = std::max(period(setting, stages), traffic.microbatch);
  double least = 1;
  for (int r = 0; r < d; ++r) {
    const StageTiming& stage = stages[r];
    // Microbatches leave the rest of the link.
    const double rest = stage.sum > 0 || stage.tie_shares ? 1 - traffic.microbatch / pace : 1;
    const double seconds = (traffic.queues[r] + stage.reduce + stage.tie) / std::max(rest, 1e-3);
    if (seconds <= 0) continue;
    // A stage further on has more: it completes its gradient earlier.
    const int more = schedule::in_flight_bound(spec, 0) - schedule::in_flight_bound(spec, r);
    least = std::max(least, std::ceil(seconds / stage.compute()) - more);
  }
  if (!(least < never)) return never;
  const auto seconds = [&](int slack) {
    Setting with = setting;
    with.shape.step_slack = slack;
    return schedule::switches_to_true_weights(spec_of(with, d)) || slack == never
               ? update_seconds(with, stages, sharing)
               : kNoUpdate;
  };
  return seconds(static_cast<int>(least)) <= seconds(never) * (1 + 1e-12) ? static_cast<int>(least) : never;
}

}  // namespace twobw::planner
