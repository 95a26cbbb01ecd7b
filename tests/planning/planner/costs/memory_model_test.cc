#include "planning/planner/costs/memory_model.h"

#include <gtest/gtest.h>

#include <set>

namespace twobw::planner {
namespace {

using schedule::Kind;
using schedule::Spec;

constexpr StateBytes kFp32 = {.weights = 4, .master = 0, .gradients = 4, .optimizer = 8};
constexpr StateBytes kFp32Predicted = {.weights = 4, .master = 4, .gradients = 4, .optimizer = 8};
constexpr StateBytes kBf16 = {.weights = 2, .master = 4, .gradients = 4, .optimizer = 8};

StageLoad some_load() {
  return {.parameters = 1000,
          .gradient_parameters = 1000,
          .saved_bytes = 700,
          .working = 50,
          .input = 30,
          .output = 20,
          .tokens = 7};
}

double training_state(const Footprint& memory) {
  return memory[Term::Weights] + memory[Term::Master] + memory[Term::Gradients] + memory[Term::Optimizer];
}

TEST(Memory, BytesAParameterAreThoseOfTheDesign) {
  const auto bytes = [](Kind kind, int stage, const StateBytes& state, int replicas) {
    const Spec spec = {
        .shape = {.schedule = kind, .stages = 4, .replicas = replicas, .microbatches = 8, .predict = false}};
    return training_state(footprint(spec, stage, some_load(), state, false)) / 1000;
  };
  EXPECT_EQ(bytes(Kind::Flush, 1, kFp32, 1), 16);
  EXPECT_EQ(bytes(Kind::GPipe, 1, kBf16, 1), 18);
  EXPECT_EQ(bytes(Kind::TwoBW, 0, kFp32, 1), 20);  // two versions
  EXPECT_EQ(bytes(Kind::TwoBW, 0, kBf16, 1), 20);
  EXPECT_EQ(bytes(Kind::TwoBW, 1, kFp32, 1), 24);  // and two gradient buffers
  EXPECT_EQ(bytes(Kind::TwoBW, 3, kFp32, 1), 20);  // one version, two gradient buffers
  EXPECT_EQ(bytes(Kind::TwoBW, 0, kFp32, 2), 24);  // stage 0 waits for the other replica
}

double predicted_bytes(int stage, const StateBytes& state, int replicas, bool double_buffer_gradients) {
  const Spec spec = {.shape = {.schedule = Kind::TwoBW,
                               .stages = 4,
                               .replicas = replicas,
                               .microbatches = 8,
                               .double_buffer_gradients = double_buffer_gradients}};
  return training_state(footprint(spec, stage, some_load(), state, false)) / 1000;
}

TEST(Memory, APredictionTakesTheTrueWeightsBesidesInFp32AndNothingInBf16) {
  for (bool double_buffer_gradients : {true, false}) {
    EXPECT_EQ(predicted_bytes(0, kFp32Predicted, 1, double_buffer_gradients), 24);
    EXPECT_EQ(predicted_bytes(0, kBf16, 1, double_buffer_gradients), 20);
  }
  EXPECT_EQ(predicted_bytes(1, kFp32Predicted, 1, true), 28);  // and two gradient buffers
  EXPECT_EQ(predicted_bytes(1, kBf16, 1, true), 24);
  EXPECT_EQ(predicted_bytes(1, kFp32Predicted, 1, false), 24);
  EXPECT_EQ(predicted_bytes(1, kBf16, 1, false), 20);
}

// One version, for it has none in flight when it predicts, nor when it steps late.
TEST(Memory, OnTheLastStageAPredictionTakesTheBytesOfFlush) {
  EXPECT_EQ(predicted_bytes(3, kFp32Predicted, 1, true), 24);
  EXPECT_EQ(predicted_bytes(3, kFp32Predicted, 1, false), 20);  // and the true weights
  EXPECT_EQ(predicted_bytes(3, kBf16, 1, true), 22);
  EXPECT_EQ(predicted_bytes(3, kBf16, 1, false), 18);
}

TEST(Memory, ReplicasHaveABufferForTheSumTheyPredictFrom) {
  for (int stage = 0; stage < 4; ++stage) {
    for (const StateBytes& state : {kFp32Predicted, kBf16}) {
      EXPECT_EQ(predicted_bytes(stage, state, 2, false), predicted_bytes(stage, state, 1, false) + 4);
      // Stage 0 has a second gradient buffer as well, for it waits for the other replica.
      EXPECT_EQ(predicted_bytes(stage, state, 2, true),
                predicted_bytes(stage, state, 1, true) + (stage == 0 ? 8 : 4));
    }
  }
}

// With sharded state each replica has a shard of the optimizer's state and of the true weights.
TEST(Memory, SharedStateTakesItsPartOnEachReplica) {
  for (const int replicas : {1, 2, 4}) {
    for (const StateBytes& state : {kFp32, kFp32Predicted, kBf16}) {
      Spec spec = {.shape = {.schedule = Kind::TwoBW, .stages = 4, .replicas = replicas, .microbatches = 8}};
      const Footprint all = footprint(spec, 1, some_load(), state, false);
      spec.shape.shard_state = true;
      Footprint expected = all;
      expected[Term::Master] /= replicas;
      expected[Term::Optimizer] /= replicas;
      EXPECT_EQ(footprint(spec, 1, some_load(), state, false).bytes, expected.bytes);
    }
  }
}

TEST(Memory, ActivationsAndInputsAreKeptForAllInFlight) {
  for (Kind kind : {Kind::Sequential, Kind::GPipe, Kind::Flush, Kind::TwoBW}) {
    for (int stage = 0; stage < 4; ++stage) {
      const Spec spec = {.shape = {.schedule = kind, .stages = 4, .microbatches = 8, .extra = 3}};
      const Footprint memory = footprint(spec, stage, some_load(), kFp32, false);
      const int in_flight = schedule::in_flight_bound(spec, stage);
      EXPECT_EQ(memory[Term::Activations], in_flight * 700);
      EXPECT_EQ(memory[Term::Inputs], in_flight * (30 + 7));
      EXPECT_EQ(memory[Term::Working], 50);
      EXPECT_EQ(memory[Term::Transfer], 20 + 30);
    }
  }
}

TEST(Memory, RecomputationKeepsInputsAndOneMicrobatch) {
  const Spec spec = {.shape = {.schedule = Kind::TwoBW, .stages = 4, .microbatches = 8}};
  const Footprint kept = footprint(spec, 0, some_load(), kFp32, false);
  const Footprint recomputed = footprint(spec, 0, some_load(), kFp32, true);
  EXPECT_EQ(recomputed[Term::Activations], 0);
  EXPECT_EQ(recomputed[Term::Inputs], kept[Term::Inputs]);
  EXPECT_EQ(recomputed[Term::Working], 50 + 700);
  EXPECT_EQ(kept.total() - recomputed.total(), (4 - 1) * 700);
}

TEST(Memory, ATieOverTwoStagesHasACopyOnItsWayWhileWorkGoesOn) {
  StageLoad load = some_load();
  load.tied = 200;
  for (const auto& [kind, copies] : {std::pair{Kind::TwoBW, 1}, {Kind::Flush, 0}}) {
    const Spec spec = {.shape = {.schedule = kind, .stages = 4, .microbatches = 8}};
    EXPECT_EQ(footprint(spec, 0, load, kBf16, false)[Term::Transfer], 20 + 30 + copies * 4 * 200);
  }
}

TEST(Memory, ALateTieTakesASecondGradientBufferOfTheFirstStage) {
  StageLoad load = some_load();
  load.tied = 200;
  for (const int m : {8, 4}) {  // some on true weights; all of a batch predicted
    Spec spec = {.shape = {.schedule = Kind::TwoBW, .stages = 4, .microbatches = m}};
    const Footprint first = footprint(spec, 0, load, kBf16, false),
                    last = footprint(spec, 3, load, kBf16, false);
    spec.shape.defer_tied_update = true;
    Footprint late = footprint(spec, 0, load, kBf16, false);
    EXPECT_EQ(late[Term::Gradients], 2 * first[Term::Gradients]);
    late[Term::Gradients] = first[Term::Gradients];
    EXPECT_EQ(late.total(), first.total());
    EXPECT_EQ(footprint(spec, 3, load, kBf16, false).total() - last.total(), m == 8 ? 0 : 4 * 200);
    spec.shape.replicas = 2;  // whose first stages step late anyway
    const Footprint of_two = footprint(spec, 0, load, kBf16, false);
    spec.shape.defer_tied_update = false;
    EXPECT_EQ(of_two.total(), footprint(spec, 0, load, kBf16, false).total());
  }
}

TEST(Memory, ATieMayNeedMostAtTheEndOfABatch) {
  StageLoad load = some_load();
  load.tied = 100000;
  const Footprint flush =
      footprint({.shape = {.schedule = Kind::Flush, .stages = 4, .microbatches = 8}}, 0, load, kBf16, false);
  EXPECT_EQ(flush[Term::Activations], 0);
  EXPECT_EQ(flush[Term::Inputs], 0);
  EXPECT_EQ(flush[Term::Working], 400000);
  EXPECT_EQ(flush[Term::Transfer], 400000);
  const Footprint last =
      footprint({.shape = {.schedule = Kind::Flush, .stages = 4, .microbatches = 8}}, 3, load, kBf16, false);
  EXPECT_EQ(last[Term::Working], 400000);
  EXPECT_EQ(last[Term::Transfer], 0);
  const Footprint twobw =
      footprint({.shape = {.schedule = Kind::TwoBW, .stages = 4, .microbatches = 8}}, 0, load, kBf16, false);
  EXPECT_EQ(twobw[Term::Activations], 3 * 700);
  EXPECT_EQ(twobw[Term::Inputs], 3 * 37);
  EXPECT_EQ(twobw[Term::Working], 400000);
  // With one gradient buffer a stage that waits has gone one forward further by then.
  for (bool double_buffer_gradients : {true, false}) {
    const Spec spec = {.shape = {.schedule = Kind::TwoBW,
                                 .stages = 4,
                                 .replicas = 2,
                                 .microbatches = 8,
                                 .double_buffer_gradients = double_buffer_gradients}};
    EXPECT_EQ(footprint(spec, 0, load, kBf16, false)[Term::Activations],
              (double_buffer_gradients ? 3 : 4) * 700);
  }
}

TEST(Memory, FixedPlacesAreThereForAllInFlight) {
  StateBytes state = kBf16;
  state.fixed_places = true;
  StageLoad load = some_load();
  for (Kind kind : {Kind::GPipe, Kind::Flush, Kind::TwoBW}) {
    const Spec spec = {.shape = {.schedule = kind, .stages = 4, .microbatches = 8}};
    for (int stage = 0; stage < 4; ++stage) {
      load.input = stage > 0 ? 30 : 0;
      const int here = schedule::in_flight_bound(spec, stage);
      const int before = stage > 0 ? schedule::in_flight_bound(spec, stage - 1) : 0;
      load.tied = 0;
      EXPECT_EQ(footprint(spec, stage, load, state, false)[Term::Transfer], here * 20 + before * 30);
      // A tie has only its two parts, even at the end of a batch.
      load.tied = 100000;
      const Footprint tied = footprint(spec, stage, load, state, false);
      EXPECT_EQ(tied[Term::Transfer], here * 20 + before * 30 + 2 * 4 * 100000);
      EXPECT_EQ(tied[Term::Working], 50);
      EXPECT_EQ(tied[Term::Activations], here * 700);
    }
  }
}

TEST(Memory, ATieOnOneStageHasTwoGradientsAndOneOfTheRest) {
  StageLoad load = some_load();
  load.gradient_parameters = 1200;
  const Spec spec = {.shape = {.schedule = Kind::Flush, .stages = 1, .microbatches = 8}};
  const Footprint memory = footprint(spec, 0, load, kFp32, false);
  EXPECT_EQ(memory[Term::Weights], 4 * 1000);
  EXPECT_EQ(memory[Term::Gradients], 4 * 1200);
  EXPECT_EQ(memory[Term::Optimizer], 8 * 1000);
}

TEST(Memory, TheTotalIsOfAllTermsAndEachHasAName) {
  Footprint memory;
  std::set<std::string_view> names;
  for (int i = 0; i < kTerms; ++i) {
    memory[static_cast<Term>(i)] = 1 << i;
    names.insert(name(static_cast<Term>(i)));
  }
  EXPECT_EQ(memory.total(), (1 << kTerms) - 1);
  EXPECT_EQ(names.size(), kTerms);
  EXPECT_FALSE(names.contains("?"));
}

}  // namespace
}  // namespace twobw::planner
