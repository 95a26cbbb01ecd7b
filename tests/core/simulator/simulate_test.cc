// Properties on systems drawn at random.
#include "core/simulator/simulate.h"

#include <gtest/gtest.h>

#include <random>

#include "../schedule/specs.h"
#include "core/schedule/execution.h"
#include "core/simulator/discrete_events.h"
#include "systems.h"

namespace twobw::simulator {
namespace {

using schedule::Kind;
using schedule::Spec;

class Draw {
 public:
  explicit Draw(std::uint32_t seed) : engine_(seed) {}

  int whole(int least, int most) {
    return least + static_cast<int>(engine_() % static_cast<std::uint32_t>(most - least + 1));
  }
  double real(double most) { return most * static_cast<double>(engine_()) / 4294967296.0; }

  Spec spec() {
    Spec spec = {.shape = {.schedule = schedule::all_kinds()[whole(0, 4)],
                           .stages = whole(1, 7),
                           .replicas = whole(1, 2),
                           .extra = whole(0, 3),
                           .predict = whole(0, 1) == 1}};
    spec.shape.microbatches = whole(schedule::smallest_microbatches(spec), 20);
    spec.shape.double_buffer_gradients = whole(0, 1) == 1;
    spec.shape.defer_tied_update = spec.shape.double_buffer_gradients && whole(0, 1) == 1;
    return spec;
  }

  // Unlike stages, links and all-reduces; sometimes one channel for all.
  System system(int stages) {
    System system = equal_stages(stages);
    for (StageTimes& stage : system.stages) {
      stage = {.forward = 1 + real(1),
               .backward = 2 + real(1),
               .step = real(2),
               .predict = real(1),
               .reduce = real(whole(0, 20))};
    }
    if (whole(0, 2) == 0) {
      add_shared_link(system, {.latency = real(0.2), .bandwidth = 1 + real(9)}, 1);
    } else {
      add_links(system, {.latency = real(1), .bandwidth = 1 + real(9)}, 1);
    }
    system.agree = real(0.5);
    if (stages > 1 && whole(0, 1) == 1) {
      system.tie_bytes = real(20);
      system.tie_forward_channel = whole(0, static_cast<int>(system.channels.size()) - 1);
      system.tie_backward_channel = whole(-1, static_cast<int>(system.channels.size()) - 1);
    }
    return system;
  }

 private:
  std::mt19937 engine_;
};

TEST(Simulate, AgreesWithTheExecutionInWholeTicks) {
  Draw draw(1);
  for (int i = 0; i < 300; ++i) {
    Spec spec = draw.spec();
    spec.updates = draw.whole(1, 4);
    spec.sync_updates = draw.whole(0, 2);
    spec.evaluate_every = draw.whole(0, 2);
    const schedule::Costs costs = {
        .forward = draw.whole(1, 5), .backward = draw.whole(1, 9), .evaluate = draw.whole(1, 4)};
    System system = equal_stages(spec.shape.stages, static_cast<double>(costs.forward),
                                 static_cast<double>(costs.backward));
    for (StageTimes& stage : system.stages) stage.evaluate = static_cast<double>(costs.evaluate);

    const schedule::Lists lists = schedule::all_instructions(spec);
    const schedule::Execution execution = schedule::execute(lists, costs);
    const Result result = simulate(spec, system, true);
    EXPECT_EQ(result.total_seconds, static_cast<double>(execution.ticks())) << schedule::text(spec);
    EXPECT_EQ(result.update_seconds, schedule::steady_ticks_per_batch(spec, costs)) << schedule::text(spec);

    std::size_t index = 0;
    for (std::size_t r = 0; r < lists.size(); ++r) {
      for (std::size_t n = 0; n < lists[r].size(); ++n, ++index) {
        const schedule::Event& event = result.events.at(index);
        ASSERT_EQ(event.stage, static_cast<int>(r));
        ASSERT_EQ(event.instruction, lists[r][n]);
        ASSERT_EQ(event.end, static_cast<double>(execution.times[r][n].end)) << schedule::text(spec);
      }
    }
    EXPECT_EQ(index, result.events.size());
  }
}

TEST(Simulate, TheSteadyStateIsThatOfALongRun) {
  Draw draw(2);
  for (int i = 0; i < 200; ++i) {
    Spec spec = draw.spec();
    const System system = draw.system(spec.shape.stages);
    const double steady = simulate(spec, system).update_seconds;
    spec.updates = 1 << 20;
    DiscreteEvents machine(spec, system, {.batch_ends = true});
    for (int batch = 0; batch < 240; ++batch) machine.run_batch();
    const double lasting = (machine.batch_end(0, 239).time - machine.batch_end(0, 119).time) / 120;
    EXPECT_NEAR(steady / lasting, 1, 1e-3) << schedule::text(spec);
  }
}

TEST(Simulate, NothingHappensBeforeItCan) {
  Draw draw(3);
  for (int i = 0; i < 200; ++i) {
    Spec spec = draw.spec();
    spec.updates = 3;
    const Result result = simulate(spec, draw.system(spec.shape.stages), true);
    const std::int64_t microbatches = spec.updates * spec.shape.microbatches;
    std::vector<double> forward(microbatches, 0.0), backward(microbatches, 0.0);
    // Events come stage after stage: each forward begins after the one before, each backward before.
    for (const schedule::Event& event : result.events) {
      if (event.instruction.op == schedule::Op::Forward) {
        EXPECT_GE(event.begin, forward[event.instruction.microbatch]);
        forward[event.instruction.microbatch] = event.end;
      } else if (event.instruction.op == schedule::Op::Backward) {
        double& earliest = backward[event.instruction.microbatch];
        if (event.stage > 0) {
          EXPECT_LE(event.end, earliest);
        }
        earliest = event.begin;
      }
    }
  }
}

TEST(Simulate, FasterPartsNeverSlowAPipelineOfOwnLinks) {
  Draw draw(4);
  for (int i = 0; i < 200; ++i) {
    const Spec spec = draw.spec();
    System system = equal_stages(spec.shape.stages);
    for (StageTimes& stage : system.stages) stage = {.forward = 1 + draw.real(1), .backward = 2, .reduce = 3};
    add_links(system, {.latency = 0.5, .bandwidth = 2}, 1);
    System faster = system;
    faster.stages[draw.whole(0, spec.shape.stages - 1)].forward /= 2;
    for (Channel& channel : faster.channels) channel.bandwidth *= 2;
    EXPECT_LE(simulate(spec, faster).update_seconds, simulate(spec, system).update_seconds * (1 + 1e-9));
  }
}

TEST(SimulateDeathTest, ASystemOfAnotherSizeIsOurMistake) {
  EXPECT_DEATH(simulate({.shape = {.schedule = Kind::Flush, .stages = 3}}, equal_stages(2)),
               "3 stages, but times of 2");
}

}  // namespace
}  // namespace twobw::simulator
