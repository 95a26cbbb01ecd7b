// Saves, and the lists of resumed runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "broken.h"
#include "specs.h"

namespace twobw::schedule {
namespace {

Ranges small_ranges() {
  return {.stages = full_sweeps() ? 4 : 3,
          .microbatches = full_sweeps() ? 6 : 5,
          .extra = 1,
          .updates = 4,
          .sync_updates = 1,
          .evaluate_every = 2,
          .replicas = 2};
}

std::vector<Instruction> with_op(const std::vector<Instruction>& list, Op op, std::int64_t first_batch) {
  std::vector<Instruction> found;
  for (const Instruction& i : list)
    if (i.op == op && i.batch >= first_batch) found.push_back(i);
  return found;
}

class Saves : public testing::TestWithParam<Kind> {};

TEST_P(Saves, EverySaveIsProven) {
  for_each_spec(GetParam(), small_ranges(), [](Spec spec) {
    spec.save_last = true;
    for (spec.save_every = 0; spec.save_every <= 3; ++spec.save_every)
      ASSERT_EQ(check(spec).problem(), "") << text(spec) << " save_every=" << spec.save_every;
  });
}

// From any cut, with the older weights and without: proven, and the same work on the same weights.
TEST_P(Saves, AResumedRunDoesTheSame) {
  for_each_spec(GetParam(), small_ranges(), [](Spec spec) {
    if (spec.updates < 2) return;
    const Lists whole = all_instructions(spec);
    for (std::int64_t cut = 1; cut < spec.updates; ++cut) {
      Spec resumed = spec;
      resumed.first_batch = cut;
      ASSERT_EQ(check(resumed).problem(), "") << text(spec) << " from " << cut;
      const Lists lists = all_instructions(resumed);
      for (std::size_t r = 0; r < lists.size(); ++r) {
        for (Op op : {Op::Forward, Op::Backward, Op::ReducePartial, Op::ReduceGradients, Op::Step})
          ASSERT_EQ(with_op(lists[r], op, cut), with_op(whole[r], op, cut)) << text(spec) << " from " << cut;
        ASSERT_EQ(with_op(lists[r], Op::Predict, cut + 1), with_op(whole[r], Op::Predict, cut + 1));
        ASSERT_EQ(with_op(lists[r], Op::Evaluate, cut - 1), with_op(whole[r], Op::Evaluate, cut - 1));
      }
      Spec calmed = resumed;  // from here on synchronous for a batch
      calmed.sync_updates = cut + 1;
      ASSERT_EQ(check(calmed).problem(), "") << text(spec) << " synchronous, from " << cut;
      resumed.begins_drained = true;
      ASSERT_EQ(check(resumed).problem(), "") << text(spec) << " drained, from " << cut;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(AllKinds, Saves, testing::ValuesIn(all_kinds()),
                         [](const auto& info) { return kind_name(info.param); });

const Spec saved = {
    .shape = {.schedule = Kind::TwoBW, .stages = 3, .microbatches = 4}, .updates = 5, .save_every = 2};

TEST(SavesTest, TheLastStageCopiesThePredictionBeforeItsStepMayOverwriteIt) {
  const std::vector<Instruction> list = instructions(saved, 2);
  const auto step =
      std::ranges::find_if(list, [](const auto& i) { return i.op == Op::Step && i.batch == 1; });
  ASSERT_NE(step, list.end());
  EXPECT_EQ(describe(*(step - 1)), "SaveCompute batch 1 for P(2)");
  EXPECT_EQ(describe(*(step + 1)), "Save batch 1 for W(2)");
}

TEST(SavesTest, NoInstructionIsIdle) {
  expect_no_idle_instruction(saved);
  Spec resumed = saved;
  resumed.first_batch = 2;
  expect_no_idle_instruction(resumed);
}

TEST(SavesTest, ARunSavesOnRequest) {
  Spec spec = saved;
  spec.save_every = 0;
  for (int stage = 0; stage < 3; ++stage) {
    Stream stream(spec, stage);
    std::vector<Instruction> list;
    while (const auto i = stream.next()) {
      list.push_back(*i);
      if (i->op == Op::BeginBatch && i->batch == 3) stream.save_before(3);
      if (i->op == Op::BeginBatch && i->batch == 4) stream.stop_before(4);
    }
    EXPECT_EQ(with_op(list, Op::Save, 0),
              (std::vector<Instruction>{{.op = Op::Save, .batch = 2, .version = 3}}));
    EXPECT_EQ(with_op(list, Op::SaveCompute, 0).size(), 1u);
  }
}

TEST(SavesTest, OtherReplicasDoNotSave) {
  Spec spec = saved;
  spec.shape.replicas = 2;
  EXPECT_EQ(check(spec).problem(), "");
  EXPECT_TRUE(with_op(instructions(of_replica(spec, 1), 0), Op::Save, 0).empty());
}

}  // namespace
}  // namespace twobw::schedule
