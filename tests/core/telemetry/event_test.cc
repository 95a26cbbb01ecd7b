#include "core/telemetry/event.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/codec.h"

namespace twobw::telemetry {
namespace {

using Json = nlohmann::json;
using schedule::Op;

// Every field differs from its default, so that one without a place in fields() would be missed.
TEST(StageUpdate, AllOfItIsEncoded) {
  StageUpdate sent{.replica = 2,
                   .stage = 3,
                   .update = 1'000'000'000'000,
                   .time = 1.5,
                   .waiting = 0.25,
                   .elapsed = 0.5,
                   .evaluating = 3.5,
                   .saving = 4.5,
                   .data_wait = 0.125,
                   .learning_rate = 1e-3,
                   .gradient_norm = 7.0,
                   .skipped = true,
                   .loss_scale = 1024,
                   .loss = 0.1,
                   .miss = PredictionMiss{.squared_step = 3, .squared_miss = 0.3},
                   .checksums = {1, 0xffffffffffffffff, 3}};
  sent.peak[Term::Transfer] = 34;
  EXPECT_EQ(from_bytes<StageUpdate>(to_bytes(sent)), sent);
  const Evaluation evaluation{.update = 7, .loss = 2.5};
  EXPECT_EQ(from_bytes<Evaluation>(to_bytes(evaluation)), evaluation);
}

// The written trace, read back.
Json traced(const std::vector<Event>& events) {
  const std::string path = testing::TempDir() + "twobw_trace_test_" + std::to_string(getpid());
  write_trace(path, events);
  std::ifstream file(path);
  const Json trace = Json::parse(file);
  std::remove(path.c_str());
  return trace;
}

TEST(Trace, HasACellForEveryEventInTheRowOfItsStage) {
  const Json trace = traced({
      {.stage = 0,
       .instruction = {.op = Op::Forward, .batch = 1, .microbatch = 5, .version = 0},
       .begin = 0.5,
       .end = 0.75},
      {.stage = 2, .instruction = {.op = Op::BeginBatch, .batch = 3}, .begin = 1, .end = 1, .replica = 4},
  });
  ASSERT_EQ(trace.size(), 2u);
  EXPECT_EQ(trace[0], Json::parse(R"({"name": "Forward", "ph": "X", "ts": 500000.0, "dur": 250000.0, "pid": 0,
                                      "tid": 0, "args": {"batch": 1, "microbatch": 5, "version": 0}})"));
  EXPECT_EQ(trace[1]["tid"], 2);
  EXPECT_EQ(trace[1]["pid"], 4);                                // a group of rows a replica
  EXPECT_EQ(trace[1]["args"], Json::parse(R"({"batch": 3})"));  // without a microbatch
}

TEST(Trace, OfNothingIsAnEmptyList) {
  EXPECT_EQ(traced({}), Json::array());
}

}  // namespace
}  // namespace twobw::telemetry
