// Quantities of a spec as integers. The checker's sweeps (checker_test.cc) prove weights, buffers and
// predictions of the lists by rules of their own.
#include "core/schedule/spec.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/error.h"
#include "specs.h"
#include "tests/support/refusal.h"

namespace twobw::schedule {
namespace {

using Counts = std::vector<int>;

// The sentence that refuses a spec; empty if it is accepted.
std::string refusal(const Spec& spec) {
  return error_of([&] { validate(spec); });
}

TEST(Spec, KindsAreReadByTheirNames) {
  for (Kind kind : all_kinds()) EXPECT_EQ(parse_kind(name(kind)), kind);
  EXPECT_EQ(error_of([] { parse_kind("3bw"); }),
            "pipeline.schedule is '3bw'; allowed: sequential, gpipe, flush, 2bw, stash");
}

TEST(Spec, SizesOutOfRangeAreRefusedByName) {
  EXPECT_EQ(refusal({.shape = {.stages = 0}}), "pipeline.stages is 0; it must be at least 1");
  EXPECT_EQ(refusal({.shape = {.replicas = 0}}), "pipeline.replicas is 0; it must be at least 1");
  EXPECT_EQ(refusal({.shape = {.microbatches = 0}}), "pipeline.microbatches is 0; it must be at least 1");
  EXPECT_EQ(refusal({.updates = 0}), "train.updates is 0; it must be at least 1");
  EXPECT_EQ(refusal({.sync_updates = -2}), "pipeline.sync_updates is -2; it must be at least 0");
  EXPECT_EQ(refusal({.evaluate_every = -1}), "train.eval_every is -1; it must be at least 0");
  EXPECT_EQ(refusal({.shape = {.extra = 2'000'000'000}}),
            "pipeline.extra is 2000000000; it must be at most 65536");
  EXPECT_EQ(refusal({.updates = 9'000'000'000'000'000'000}),
            "train.updates is 9000000000000000000; with 8 microbatches in an update it must be at most "
            "1152921504606846975");
  EXPECT_EQ(refusal({.shape = {.stages = 3, .replicas = 341}}), "");
  EXPECT_EQ(refusal({.shape = {.stages = 3, .replicas = 342}}),
            "pipeline.replicas is 342; with 3 stages it must be at most 341, for a run has at most 1024 "
            "workers");
  EXPECT_NE(refusal({.shape = {.stages = 3, .replicas = 2147483647}}), "");
}

// A prediction uses at least one gradient, so with prediction m = d-1+e is one too few.
TEST(Spec, TooFewMicrobatchesAreRefusedWithTheSmallestAllowed) {
  EXPECT_EQ(
      refusal(
          {.shape = {.schedule = Kind::TwoBW, .stages = 6, .microbatches = 6, .extra = 2, .predict = false}}),
      "pipeline.microbatches m = 6 is too small for 2bw with d = 6 stages and e = 2 extra: weights "
      "would be read before they exist; the smallest allowed m is d-1+e = 7");
  EXPECT_EQ(refusal({.shape = {.schedule = Kind::TwoBW, .stages = 6, .microbatches = 7, .extra = 2}}),
            "pipeline.microbatches m = 7 is too small for 2bw with prediction, d = 6 stages and e = 2 extra: "
            "the first stage would have no gradient to predict from; the smallest allowed m is d+e = 8, or "
            "with pipeline.predict: false d-1+e = 7");
}

TEST(Spec, TheBoundOnMicrobatchesIsExact) {
  for (bool predict : {true, false}) {
    for (int d = 1; d <= 8; ++d) {
      for (int e = 0; e <= 3; ++e) {
        const int bound = predict ? d + e : std::max(1, d - 1 + e);
        Spec spec = {.shape = {.schedule = Kind::TwoBW, .stages = d, .extra = e, .predict = predict}};
        spec.shape.microbatches = bound;
        EXPECT_EQ(smallest_microbatches(spec), bound);
        EXPECT_EQ(refusal(spec), "") << text(spec);
        spec.shape.microbatches = bound - 1;
        EXPECT_NE(refusal(spec), "") << text(spec);
      }
    }
  }
  for (Kind kind : {Kind::Sequential, Kind::GPipe, Kind::Flush, Kind::Stash}) {
    EXPECT_EQ(refusal({.shape = {.schedule = kind, .stages = 8, .microbatches = 1, .extra = 3}}), "");
  }
}

struct Row {
  PipelineShape shape;
  Counts in_flight, versions, gradients;
};

TEST(Spec, BuffersFollowTheTable) {
  const std::vector<Row> rows = {
      {{.schedule = Kind::Sequential, .stages = 4, .microbatches = 6},
       {1, 1, 1, 1},
       {1, 1, 1, 1},
       {1, 1, 1, 1}},
      {{.schedule = Kind::GPipe, .stages = 4, .microbatches = 6}, {6, 6, 6, 6}, {1, 1, 1, 1}, {1, 1, 1, 1}},
      {{.schedule = Kind::Flush, .stages = 4, .microbatches = 6}, {4, 3, 2, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}},
      {{.schedule = Kind::Flush, .stages = 4, .microbatches = 2}, {2, 2, 2, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}},
      {{.schedule = Kind::TwoBW, .stages = 4, .microbatches = 6}, {4, 3, 2, 1}, {2, 2, 2, 1}, {1, 2, 2, 2}},
      {{.schedule = Kind::TwoBW, .stages = 4, .microbatches = 6, .extra = 2, .predict = false},
       {6, 5, 3, 1},
       {2, 2, 2, 1},
       {1, 2, 2, 2}},
      {{.schedule = Kind::TwoBW, .stages = 4, .microbatches = 7, .extra = 3, .predict = false},
       {7, 5, 3, 1},
       {2, 2, 2, 1},
       {1, 2, 2, 2}},
      {{.schedule = Kind::TwoBW, .stages = 3, .replicas = 2, .microbatches = 4},
       {3, 2, 1},
       {2, 2, 1},
       {2, 2, 2}},
      // m = d-1: no slack at stage 0
      {{.schedule = Kind::TwoBW, .stages = 3, .replicas = 2, .microbatches = 2, .predict = false},
       {3, 2, 1},
       {2, 2, 1},
       {1, 2, 2}},
      {{.schedule = Kind::TwoBW, .stages = 2, .microbatches = 4, .double_buffer_gradients = false},
       {2, 1},
       {2, 1},
       {1, 1}},
      // flush and one version more
      {{.schedule = Kind::TwoBW,
        .stages = 2,
        .microbatches = 4,
        .double_buffer_gradients = false,
        .predict = false},
       {2, 1},
       {2, 2},
       {1, 1}},
      // predicts from the whole batch, in place; the gradient waits in the only buffer
      {{.schedule = Kind::TwoBW, .stages = 1, .microbatches = 3}, {1}, {1}, {1}},
      {{.schedule = Kind::TwoBW, .stages = 1, .microbatches = 3, .predict = false}, {1}, {2}, {1}},
      {{.schedule = Kind::TwoBW, .stages = 1, .replicas = 2, .microbatches = 3}, {1}, {1}, {2}},
      {{.schedule = Kind::Stash, .stages = 4, .microbatches = 1}, {4, 3, 2, 1}, {4, 3, 2, 1}, {1, 1, 1, 1}},
      {{.schedule = Kind::Stash, .stages = 4, .microbatches = 4}, {4, 3, 2, 1}, {2, 2, 2, 1}, {1, 1, 1, 1}},
  };
  for (const Row& row : rows) {
    const Spec spec = {.shape = row.shape};
    EXPECT_EQ(by_stage(spec, in_flight_bound), row.in_flight) << text(spec);
    EXPECT_EQ(by_stage(spec, versions_kept), row.versions) << text(spec);
    EXPECT_EQ(by_stage(spec, gradient_buffers), row.gradients) << text(spec);
  }
}

// k_r = m - n_r + 1; with replicas one microbatch hides the sum, if there are two.
TEST(Spec, AStagePredictsFromTheFirstGradients) {
  const auto gradients = [](int w, int m, int e, auto function) {
    return by_stage(
        {.shape = {.schedule = Kind::TwoBW, .stages = 4, .replicas = w, .microbatches = m, .extra = e}},
        function);
  };
  EXPECT_EQ(gradients(1, 8, 0, predicted_from), (Counts{5, 6, 7, 8}));
  EXPECT_EQ(gradients(1, 4, 0, predicted_from), (Counts{1, 2, 3, 4}));
  EXPECT_EQ(gradients(1, 8, 3, predicted_from), (Counts{2, 4, 6, 8}));
  EXPECT_EQ(gradients(2, 8, 0, gradients_at_predict), (Counts{5, 6, 7, 8}));
  EXPECT_EQ(gradients(2, 8, 0, predicted_from), (Counts{4, 5, 6, 7}));
  EXPECT_EQ(gradients(2, 4, 0, predicted_from), (Counts{1, 1, 2, 3}));
}

TEST(Spec, ThePredictionIsDescribedByStage) {
  Spec spec = {.shape = {.schedule = Kind::TwoBW, .stages = 4, .microbatches = 8}};
  EXPECT_EQ(describe_prediction(spec),
            "5, 6, 7, 8 of 8 microbatches of the batch before, for the first 4 of a batch; the others run on "
            "true weights");
  spec.shape.replicas = 2;
  spec.shape.step_slack = 3;
  EXPECT_EQ(describe_prediction(spec), "4, 5, 6, 7 of 8 microbatches of the batch before");
}

// m >= 2 (d-1+e) gives the first stage half of a batch.
TEST(Spec, HalfOfABatchPredictsWell) {
  const auto well = [](int d, int m, int e) {
    return predicts_well({.shape = {.schedule = Kind::TwoBW, .stages = d, .microbatches = m, .extra = e}});
  };
  EXPECT_TRUE(well(4, 6, 0));
  EXPECT_FALSE(well(4, 5, 0));
  EXPECT_TRUE(well(4, 12, 3));
  EXPECT_FALSE(well(4, 11, 3));
  EXPECT_TRUE(well(1, 1, 0));
}

// m >= 2 (d-1+e) + step_slack leaves P(j+1) the buffer of P(j).
TEST(Spec, LaterMicrobatchesRunOnTrueWeightsIfThereIsRoom) {
  const auto predicted = [](PipelineShape shape) {
    shape.schedule = Kind::TwoBW;
    return predicted_microbatches({.shape = shape});
  };
  EXPECT_EQ(predicted({.stages = 4, .microbatches = 8, .step_slack = 1}), 4);
  EXPECT_EQ(predicted({.stages = 4, .microbatches = 8, .step_slack = 2}), 5);
  EXPECT_EQ(predicted({.stages = 4, .microbatches = 8, .step_slack = 3}), 8);
  EXPECT_EQ(predicted({.stages = 4, .microbatches = 7, .step_slack = 1}), 4);
  EXPECT_EQ(predicted({.stages = 4, .microbatches = 6, .step_slack = 1}), 6);
  EXPECT_EQ(predicted({.stages = 4, .microbatches = 6, .step_slack = 0}), 3);
  EXPECT_EQ(predicted({.stages = 4, .microbatches = 16, .extra = 2}), 6);
  EXPECT_EQ(predicted({.stages = 2, .microbatches = 3}), 2);
  EXPECT_EQ(predicted({.stages = 2, .microbatches = 2}), 2);
  EXPECT_EQ(predicted({.stages = 1, .microbatches = 4}), 4);  // waits for nobody
  EXPECT_EQ(predicted({.stages = 1, .replicas = 2, .microbatches = 4, .step_slack = 0}), 1);
  // With one gradient buffer the last stage steps while it has a microbatch in flight.
  EXPECT_EQ(predicted({.stages = 4, .microbatches = 8, .double_buffer_gradients = false}), 8);
  EXPECT_FALSE(
      switches_to_true_weights({.shape = {.schedule = Kind::TwoBW, .microbatches = 8, .predict = false}}));
  EXPECT_FALSE(switches_to_true_weights({.shape = {.schedule = Kind::Flush, .microbatches = 8}}));
}

TEST(Spec, WorkersAreNamedByTheirReplicaIfThereAreSeveral) {
  EXPECT_EQ(worker_name(1, 0, 2), "stage 2");
  EXPECT_EQ(worker_name(3, 1, 2), "replica 1 stage 2");
}

}  // namespace
}  // namespace twobw::schedule
