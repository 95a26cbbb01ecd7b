#include "core/schedule/draw/grid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <sstream>

namespace twobw::schedule {
namespace {

std::string without_colors(const std::string& text) {
  const std::string plain = std::regex_replace(text, std::regex("\x1b\\[[0-9;]*m"), "");
  return std::regex_replace(plain, std::regex(" +\n"), "\n");
}

std::size_t longest_line(const std::string& text) {
  std::size_t longest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
  return longest;
}

TEST(Grid, TwoBWHasNoBubbleBetweenBatches) {
  EXPECT_EQ(draw({.shape = {.schedule = Kind::TwoBW, .stages = 4, .microbatches = 4, .predict = false},
                  .updates = 2}),
            R"(   tick  0         5         10        15        20        25        30
stage 0  0 1 2 3 . . . . . . 0'- 4 1'- 5 2'- 6 3'-|7 4'- . 5'- . 6'- . 7'-|
      W  0 0 0 0             0   0 0   0 0   0 0>1|0 0     0     0     0>2|
stage 1  . 0 1 2 . . . . 0'- 3 1'- 4 2'- 5 3'- 6 4'- 7 5'- . 6'- . 7'-|. .|
      W    0 0 0         0   0 0   0 0   0 0   0 0   0 0     0     0>1| >2|
stage 2  . . 0 1 . . 0'- 2 1'- 3 2'- 4 3'- 5 4'- 6 5'- 7 6'- . 7'-|. . . .|
      W      0 0     0   0 0   0 0   0 0   0 0   0 0   0 0     0>1|     >2|
stage 3  . . . 0 0'- 1 1'- 2 2'- 3 3'- 4 4'- 5 5'- 6 6'- 7 7'-|. . . . . .|
      W        0 0   0 0   0 0   0 0   0 0   0 0   0 0   0 0>1|         >2|

5 forward, 5' backward of microbatch 5, under it the t of its weights W(t)
>1| writes W(1), . idle
steady state: 100.0% busy, 12 ticks a batch
by stage: weight versions 2 2 2 1, gradient buffers 1 2 2 2, microbatches in flight 4 3 2 1
)");
}

TEST(Grid, PredictionsAreMarkedWhereTheyAreMade) {
  EXPECT_EQ(draw({.shape = {.schedule = Kind::TwoBW, .stages = 4, .microbatches = 4}, .updates = 2}),
            R"(   tick  0         5         10        15        20        25        30
stage 0  0 1 2 3 . . . . . . 0'-|4 1'- 5 2'- 6 3'-|7 4'- . 5'- . 6'- . 7'-|
      W  0 0 0 0             0~1|~ 0   ~ 0   ~ 0>1|~ ~     ~     ~     ~>2|
stage 1  . 0 1 2 . . . . 0'- 3 1'-|4 2'- 5 3'- 6 4'- 7 5'- . 6'- . 7'-|. .|
      W    0 0 0         0   0 0~1|~ 0   ~ 0   ~ ~   ~ ~     ~     ~>1| >2|
stage 2  . . 0 1 . . 0'- 2 1'- 3 2'-|4 3'- 5 4'- 6 5'- 7 6'- . 7'-|. . . .|
      W      0 0     0   0 0   0 0~1|~ 0   ~ ~   ~ ~   ~ ~     ~>1|     >2|
stage 3  . . . 0 0'- 1 1'- 2 2'- 3 3'-|4 4'- 5 5'- 6 6'- 7 7'-|. . . . . .|
      W        0 0   0 0   0 0   0 0~1|~ ~   ~ ~   ~ ~   ~ ~>1|         >2|

5 forward, 5' backward of microbatch 5, under it the t of its weights W(t), ~ if P of its batch
>1| writes W(1), ~1| predicts P(1), . idle
steady state: 100.0% busy, 12 ticks a batch
by stage: weight versions 2 2 2 1, gradient buffers 1 2 2 2, microbatches in flight 4 3 2 1
predicts from the first 1, 2, 3, 4 of 4 microbatches of the batch before
)");
}

TEST(Grid, FlushDrainsAfterEveryBatch) {
  EXPECT_EQ(draw({.shape = {.schedule = Kind::Flush, .stages = 4, .microbatches = 4}, .updates = 2}),
            R"(   tick  0         5         10        15        20        25        30        35        40
stage 0  0 1 2 3 . . . . . . 0'- . 1'- . 2'- . 3'-|4 5 6 7 . . . . . . 4'- . 5'- . 6'- . 7'-|
      W  0 0 0 0             0     0     0     0>1|1 1 1 1             1     1     1     1>2|
stage 1  . 0 1 2 . . . . 0'- 3 1'- . 2'- . 3'- . .|. 4 5 6 . . . . 4'- 7 5'- . 6'- . 7'- . .|
      W    0 0 0         0   0 0     0     0    >1|  1 1 1         1   1 1     1     1    >2|
stage 2  . . 0 1 . . 0'- 2 1'- 3 2'- . 3'- . . . .|. . 4 5 . . 4'- 6 5'- 7 6'- . 7'- . . . .|
      W      0 0     0   0 0   0 0     0        >1|    1 1     1   1 1   1 1     1        >2|
stage 3  . . . 0 0'- 1 1'- 2 2'- 3 3'- . . . . . .|. . . 4 4'- 5 5'- 6 6'- 7 7'- . . . . . .|
      W        0 0   0 0   0 0   0 0            >1|      1 1   1 1   1 1   1 1            >2|

5 forward, 5' backward of microbatch 5, under it the t of its weights W(t)
>1| writes W(1), . idle
steady state: 57.1% busy, 21 ticks a batch
by stage: weight versions 1 1 1 1, gradient buffers 1 1 1 1, microbatches in flight 4 3 2 1
)");
}

// >2~3| writes W(2) and predicts P(3) from it.
TEST(Grid, TheSynchronousStartAndThePredictions) {
  const Spec spec = {
      .shape = {.schedule = Kind::TwoBW, .stages = 2, .microbatches = 2}, .updates = 4, .sync_updates = 1};
  EXPECT_EQ(draw_grid(all_instructions(spec), {.costs = {.forward = 1, .backward = 3}}),
            R"(   tick  0         5         10        15        20        25        30        35
stage 0  0 1 . . . 0'--- . 1'---|2 3 . . . 2'---|4 3'---|5 4'---|6 5'---|7 6'--- . 7'---|
      W  0 0       0       0  >1|1 1       1  ~2|~ 1  >2|~ ~  ~3|~ ~  >3|~ ~       ~  >4|
stage 1  . 0 0'--- 1 1'--- . . .|. 2 2'--- 3 3'---|4 4'--- 5 5'---|6 6'--- 7 7'---|. . .|
      W    0 0     0 0        >1|  1 1     1 1  ~2|~ ~     ~ ~>2~3|~ ~     ~ ~  >3|   >4|
)");
}

TEST(Grid, DrawsEvaluations) {
  const Spec spec = {
      .shape = {.schedule = Kind::GPipe, .stages = 2, .microbatches = 2}, .updates = 1, .evaluate_every = 1};
  EXPECT_EQ(draw_grid(all_instructions(spec)),
            R"(   tick  0         5         10
stage 0  0 1 . . . 0'- 1'-|E .
      W  0 0       0   0>1|1
stage 1  . 0 1 0'- 1'- . .|. E
      W    0 0 0   0    >1|  1
)");
}

TEST(Grid, TwoUpdatesAtOnce) {
  const Spec spec = {.shape = {.schedule = Kind::TwoBW, .stages = 1, .microbatches = 1, .predict = false},
                     .updates = 2};
  Lists lists = all_instructions(spec);
  std::ranges::stable_partition(lists[0], [](const Instruction& i) { return i.op != Op::Step; });
  EXPECT_EQ(draw_grid(lists, {.costs = {.forward = 1, .backward = 3}}),
            R"(   tick  0         5
stage 0  0 0'--- 1 1'---|
      W  0 0     0 0>1>2|
)");
}

TEST(Grid, TheFirstTicksOfALongRun) {
  const Spec spec = {.shape = {.schedule = Kind::TwoBW, .stages = 2, .microbatches = 2, .predict = false},
                     .updates = 1'000'000'000};
  const std::string expected = R"(   tick  0         5
stage 0  0 1 . . 0'- 2 1' ...
      W  0 0     0   0 0
stage 1  . 0 0'- 1 1'- 2  ...
      W    0 0   0 0   0
)";
  EXPECT_EQ(draw(spec, {.ticks = 8}).substr(0, expected.size()), expected);
}

TEST(Grid, EveryVersionHasItsColorAndTheTextStays) {
  const Lists lists =
      all_instructions({.shape = {.schedule = Kind::Flush, .stages = 1, .microbatches = 1}, .updates = 2});
  const std::string plain = draw_grid(lists), colored = draw_grid(lists, {.color = true});
  EXPECT_EQ(plain.find('\x1b'), std::string::npos);
  EXPECT_EQ(without_colors(colored), plain);
  // W(0), then W(1) written
  EXPECT_NE(colored.find("\x1b[0;30;46m0'-\x1b[0;1;33m|"), std::string::npos) << colored;
  EXPECT_NE(colored.find("\x1b[0;30;43m1'-"), std::string::npos) << colored;
}

TEST(Grid, FitsTheTerminal) {
  const Spec spec = {.shape = {.schedule = Kind::TwoBW, .stages = 4, .microbatches = 4},
                     .updates = 1'000'000};
  for (std::int64_t columns : {40, 80, 120, 1000}) {
    GridOptions options;
    options.ticks = ticks_that_fit(spec, options, columns);
    Spec shorter = spec;
    shorter.updates = 200;
    const std::size_t longest = longest_line(draw_grid(all_instructions(shorter), options));
    EXPECT_LE(longest, static_cast<std::size_t>(columns));
    EXPECT_GT(longest, static_cast<std::size_t>(columns) * 2 / 3);
  }
}

}  // namespace
}  // namespace twobw::schedule
