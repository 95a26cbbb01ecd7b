#include "core/schedule/spec.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/error.h"
#include "specs.h"

namespace twobw::schedule {
namespace {

// What the user is told, empty if the spec is accepted.
std::string refusal(const Spec& spec) {
  try {
    validate(spec);
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

std::vector<std::int64_t> versions_by_batch(Spec spec, std::int64_t batches) {
  std::vector<std::int64_t> versions;
  for (std::int64_t j = 0; j < batches; ++j)
    versions.push_back(version_of(spec, 0, j * spec.shape.microbatches));
  return versions;
}

TEST(Spec, KindsAreReadByTheirNames) {
  for (Kind kind : all_kinds()) EXPECT_EQ(parse_kind(name(kind)), kind);
}

TEST(Spec, AnUnknownKindIsRefusedWithThoseKnown) {
  try {
    parse_kind("3bw");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "pipeline.schedule is '3bw'; allowed: sequential, gpipe, flush, 2bw, stash");
  }
}

TEST(Spec, SizesOutOfRangeAreRefusedByName) {
  EXPECT_EQ(refusal({.shape = {.stages = 0}}), "pipeline.stages is 0; it must be at least 1");
  EXPECT_EQ(refusal({.shape = {.microbatches = 0}}), "pipeline.microbatches is 0; it must be at least 1");
  EXPECT_EQ(refusal({.shape = {.extra = -1}}), "pipeline.extra is -1; it must be at least 0");
  EXPECT_EQ(refusal({.updates = 0}), "train.updates is 0; it must be at least 1");
  EXPECT_EQ(refusal({.sync_updates = -2}), "pipeline.sync_updates is -2; it must be at least 0");
  EXPECT_EQ(refusal({.evaluate_every = -1}), "train.eval_every is -1; it must be at least 0");
  EXPECT_EQ(refusal({.shape = {.extra = 2'000'000'000}}),
            "pipeline.extra is 2000000000; it must be at most 65536");
  EXPECT_EQ(refusal({.updates = 9'000'000'000'000'000'000}),
            "train.updates is 9000000000000000000; with 8 microbatches in an update it must be at most "
            "1152921504606846975");
}

TEST(Spec, TooFewMicrobatchesAreRefusedWithTheSmallestAllowed) {
  EXPECT_EQ(
      refusal(
          {.shape = {.schedule = Kind::TwoBW, .stages = 6, .microbatches = 6, .extra = 2, .predict = false}}),
      "pipeline.microbatches m = 6 is too small for 2bw with d = 6 stages and e = 2 extra: weights "
      "would be read before they exist; the smallest allowed m is d-1+e = 7");
}

// A prediction is made of one gradient at least: there m = d-1+e is one too few.
TEST(Spec, TooFewMicrobatchesToPredictFromAreRefusedWithTheRuleThatTakesThem) {
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
}

TEST(Spec, OtherKindsRunWithOneMicrobatch) {
  for (Kind kind : {Kind::Sequential, Kind::GPipe, Kind::Flush, Kind::Stash}) {
    EXPECT_EQ(refusal({.shape = {.schedule = kind, .stages = 8, .microbatches = 1, .extra = 3}}), "");
  }
}

TEST(Spec, InFlightFollowsTheTable) {
  using Counts = std::vector<int>;
  const auto in_flight = [](Kind kind, int m, int e) {
    return by_stage({.shape = {.schedule = kind, .stages = 4, .microbatches = m, .extra = e}},
                    in_flight_bound);
  };
  EXPECT_EQ(in_flight(Kind::Sequential, 6, 0), (Counts{1, 1, 1, 1}));
  EXPECT_EQ(in_flight(Kind::GPipe, 6, 0), (Counts{6, 6, 6, 6}));
  EXPECT_EQ(in_flight(Kind::Flush, 6, 0), (Counts{4, 3, 2, 1}));
  EXPECT_EQ(in_flight(Kind::Flush, 2, 0), (Counts{2, 2, 2, 1}));
  EXPECT_EQ(in_flight(Kind::TwoBW, 6, 0), (Counts{4, 3, 2, 1}));
  EXPECT_EQ(in_flight(Kind::TwoBW, 6, 2), (Counts{6, 5, 3, 1}));
  EXPECT_EQ(in_flight(Kind::TwoBW, 6, 3), (Counts{7, 5, 3, 1}));
  EXPECT_EQ(in_flight(Kind::Stash, 2, 0), (Counts{4, 3, 2, 1}));
}

TEST(Spec, VersionsKeptFollowTheTable) {
  using Counts = std::vector<int>;
  const auto kept = [](Kind kind, int m) {
    return by_stage({.shape = {.schedule = kind, .stages = 4, .microbatches = m}}, versions_kept);
  };
  EXPECT_EQ(kept(Kind::Flush, 4), (Counts{1, 1, 1, 1}));
  EXPECT_EQ(kept(Kind::TwoBW, 4), (Counts{2, 2, 2, 1}));  // the last updates in place
  EXPECT_EQ(kept(Kind::Stash, 1), (Counts{4, 3, 2, 1}));  // up to d-r, reached without coalescing
  EXPECT_EQ(kept(Kind::Stash, 4), (Counts{2, 2, 2, 1}));
}

TEST(Spec, OnlyStagesThatWaitHaveASecondGradientBuffer) {
  EXPECT_EQ(by_stage({.shape = {.schedule = Kind::TwoBW, .stages = 3}}, gradient_buffers),
            (std::vector<int>{1, 2, 2}));
  EXPECT_EQ(by_stage({.shape = {.schedule = Kind::Flush, .stages = 3}}, gradient_buffers),
            (std::vector<int>{1, 1, 1}));
}

// Flush and one version more: with bf16 2+2+4+4+8 bytes a parameter.
TEST(Spec, WithoutTheSecondGradientBufferEveryStageKeepsTwoVersionsAndOneGradient) {
  for (int replicas : {1, 2}) {
    for (int d = 1; d <= 5; ++d) {
      const Spec spec = {.shape = {.schedule = Kind::TwoBW,
                                   .stages = d,
                                   .replicas = replicas,
                                   .double_buffer_gradients = false,
                                   .predict = false}};
      EXPECT_EQ(by_stage(spec, gradient_buffers), std::vector<int>(d, 1));
      EXPECT_EQ(by_stage(spec, versions_kept), std::vector<int>(d, 2));
      EXPECT_FALSE(has_second_gradient(spec));
    }
  }
}

TEST(Spec, TwoBWIsOneUpdateBehind) {
  EXPECT_EQ(versions_by_batch({.shape = {.schedule = Kind::TwoBW, .predict = false}}, 5),
            (std::vector<std::int64_t>{0, 0, 1, 2, 3}));
}

TEST(Spec, TheDelayBeginsAfterTheSynchronousUpdates) {
  const Spec spec = {.shape = {.schedule = Kind::TwoBW, .predict = false}, .sync_updates = 2};
  EXPECT_EQ(versions_by_batch(spec, 6), (std::vector<std::int64_t>{0, 1, 2, 2, 3, 4}));
}

std::vector<bool> predicted_by_batch(const Spec& spec, std::int64_t batches) {
  std::vector<bool> predicted;
  for (std::int64_t j = 0; j < batches; ++j) predicted.push_back(predicts(spec, j));
  return predicted;
}

TEST(Spec, EveryBatchButTheFirstIsPredicted) {
  const Spec spec = {.shape = {.schedule = Kind::TwoBW}};
  EXPECT_EQ(versions_by_batch(spec, 4), (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(predicted_by_batch(spec, 4), (std::vector<bool>{false, true, true, true}));
}

// The batch that follows the synchronous updates has W(j) of the last of them.
TEST(Spec, ThePredictionsBeginAfterTheSynchronousUpdates) {
  const Spec spec = {.shape = {.schedule = Kind::TwoBW}, .sync_updates = 2};
  EXPECT_EQ(versions_by_batch(spec, 5), (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(predicted_by_batch(spec, 5), (std::vector<bool>{false, false, false, true, true}));
}

TEST(Spec, OnlyTwoBWPredictsAndOnlyIfAsked) {
  for (Kind kind : all_kinds()) {
    EXPECT_EQ(predicts({.shape = {.schedule = kind}}, 1), kind == Kind::TwoBW) << name(kind);
    EXPECT_FALSE(predicts({.shape = {.schedule = kind, .predict = false}}, 1)) << name(kind);
  }
}

// P(j) takes W(j-1): the update before the last may wait until then.
TEST(Spec, APredictionNeedsOneUpdateFewer) {
  const Spec spec = {.shape = {.schedule = Kind::TwoBW, .microbatches = 8}, .sync_updates = 1};
  const auto updates = [&](std::int64_t batch) { return updates_before(spec, 0, batch * 8); };
  EXPECT_EQ(updates(0), 0);
  EXPECT_EQ(updates(1), 1);
  EXPECT_EQ(updates(2), 1);
  EXPECT_EQ(updates(3), 2);
}

// k_r = m - n_r + 1.
TEST(Spec, AStagePredictsFromTheGradientsThatAreIn) {
  using Counts = std::vector<int>;
  const auto gradients = [](int m, int e) {
    return by_stage({.shape = {.schedule = Kind::TwoBW, .stages = 4, .microbatches = m, .extra = e}},
                    gradients_at_predict);
  };
  EXPECT_EQ(gradients(8, 0), (Counts{5, 6, 7, 8}));
  EXPECT_EQ(gradients(4, 0), (Counts{1, 2, 3, 4}));
  EXPECT_EQ(gradients(8, 3), (Counts{2, 4, 6, 8}));  // n = 7, 5, 3, 1
  EXPECT_EQ(gradients(8, 2), (Counts{3, 4, 6, 8}));
}

// One microbatch hides the sum, where there are two.
TEST(Spec, ReplicasPredictFromOneFewer) {
  Spec spec = {.shape = {.schedule = Kind::TwoBW, .stages = 4, .replicas = 2, .microbatches = 8}};
  EXPECT_EQ(by_stage(spec, gradients_at_predict), (std::vector<int>{5, 6, 7, 8}));
  EXPECT_EQ(by_stage(spec, predicted_from), (std::vector<int>{4, 5, 6, 7}));
  spec.shape.microbatches = 4;
  EXPECT_EQ(by_stage(spec, predicted_from), (std::vector<int>{1, 1, 2, 3}));
  spec.shape.microbatches = 8;
  spec.shape.extra = 3;
  EXPECT_EQ(by_stage(spec, predicted_from), (std::vector<int>{1, 3, 5, 7}));
}

TEST(Spec, ThePredictionIsDescribedByStage) {
  Spec spec = {.shape = {.schedule = Kind::TwoBW, .stages = 4, .microbatches = 8}};
  EXPECT_EQ(describe_prediction(spec),
            "5, 6, 7, 8 of 8 microbatches of the batch before, for the first 4 of a batch; the others run on "
            "true weights");
  spec.shape.replicas = 2;
  spec.shape.step_slack = 3;
  EXPECT_EQ(describe_prediction(spec), "4, 5, 6, 7 of 8 microbatches of the batch before");
  EXPECT_EQ(describe_prediction({.shape = {.schedule = Kind::TwoBW, .stages = 1, .microbatches = 1}}),
            "1 of 1 microbatches of the batch before");
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

// P(j) is written where batch j begins, and the last stage has none in flight then.
TEST(Spec, WithPredictionTheLastStageKeepsOneVersionWhateverItsGradients) {
  for (bool double_buffer_gradients : {true, false}) {
    for (int replicas : {1, 2}) {
      const Spec spec = {.shape = {.schedule = Kind::TwoBW,
                                   .stages = 4,
                                   .replicas = replicas,
                                   .double_buffer_gradients = double_buffer_gradients}};
      EXPECT_EQ(by_stage(spec, versions_kept), (std::vector<int>{2, 2, 2, 1})) << text(spec);
    }
  }
}

// m >= 2 (d-1+e) + slack leaves P(j+1) the buffer of P(j).
TEST(Spec, LaterMicrobatchesRunOnTrueWeightsWhereThereIsRoom) {
  const auto predicted = [](int d, int m, int e, int slack) {
    return predicted_microbatches(
        {.shape = {
             .schedule = Kind::TwoBW, .stages = d, .microbatches = m, .extra = e, .step_slack = slack}});
  };
  EXPECT_EQ(predicted(4, 8, 0, 1), 4);
  EXPECT_EQ(predicted(4, 8, 0, 2), 5);
  EXPECT_EQ(predicted(4, 8, 0, 3), 8);
  EXPECT_EQ(predicted(4, 7, 0, 1), 4);
  EXPECT_EQ(predicted(4, 6, 0, 1), 6);
  EXPECT_EQ(predicted(4, 6, 0, 0), 3);
  EXPECT_EQ(predicted(4, 16, 2, 1), 6);
  EXPECT_EQ(predicted(2, 3, 0, 1), 2);
  EXPECT_EQ(predicted(2, 2, 0, 1), 2);
  EXPECT_EQ(predicted(1, 4, 0, 1), 4);  // alone there is nothing to wait for
  // There is always one.
  EXPECT_EQ(
      predicted_microbatches(
          {.shape =
               {.schedule = Kind::TwoBW, .stages = 1, .replicas = 2, .microbatches = 4, .step_slack = 0}}),
      1);
  // With one gradient buffer the last stage steps while it has one in flight.
  EXPECT_EQ(predicted_microbatches({.shape = {.schedule = Kind::TwoBW,
                                              .stages = 4,
                                              .microbatches = 8,
                                              .double_buffer_gradients = false}}),
            8);
  EXPECT_FALSE(
      switches_to_true_weights({.shape = {.schedule = Kind::TwoBW, .microbatches = 8, .predict = false}}));
  EXPECT_FALSE(switches_to_true_weights({.shape = {.schedule = Kind::Flush, .microbatches = 8}}));
}

TEST(Spec, PredictionsAndTrueWeightsTakeTurnsInTheBuffers) {
  Spec spec = {.shape = {.schedule = Kind::TwoBW, .stages = 4, .microbatches = 8}, .sync_updates = 2};
  EXPECT_EQ(generation_of(spec, 0, false), 0);
  EXPECT_EQ(generation_of(spec, 2, false), 2);
  EXPECT_EQ(generation_of(spec, 3, true), 3);
  EXPECT_EQ(generation_of(spec, 3, false), 4);
  EXPECT_EQ(generation_of(spec, 4, true), 5);
  EXPECT_EQ(generation_of(spec, 4, false), 6);
  spec.shape.step_slack = 8;
  EXPECT_EQ(generation_of(spec, 3, true), 3);
  EXPECT_EQ(generation_of(spec, 4, true), 4);
}

// It has the whole batch, and one version to write the prediction to. What the prediction is made of waits in
// the gradient buffer until the next batch needs it, so one is enough.
TEST(Spec, OneStageAlonePredictsFromTheWholeBatchInPlace) {
  const Spec spec = {.shape = {.schedule = Kind::TwoBW, .stages = 1, .microbatches = 3}};
  EXPECT_EQ(gradients_at_predict(spec, 0), 3);
  EXPECT_EQ(predicted_from(spec, 0), 3);
  EXPECT_EQ(versions_kept(spec, 0), 1);
  EXPECT_EQ(gradient_buffers(spec, 0), 1);
  EXPECT_TRUE(steps_late(spec, 0));  // after the prediction
}

TEST(Spec, OneStageOfReplicasHasASecondGradientBufferForTheirSum) {
  const Spec spec = {.shape = {.schedule = Kind::TwoBW, .stages = 1, .replicas = 2, .microbatches = 3}};
  EXPECT_EQ(predicted_from(spec, 0), 2);
  EXPECT_EQ(versions_kept(spec, 0), 1);
  EXPECT_EQ(gradient_buffers(spec, 0), 2);
}

}  // namespace
}  // namespace twobw::schedule
