#include "core/telemetry/event.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace twobw::telemetry {
namespace {

using Json = nlohmann::json;
using schedule::Op;

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
  EXPECT_EQ(trace[1]["args"], Json::parse(R"({"batch": 3})"));  // nothing of a microbatch it does not have
}

TEST(Trace, OfNothingIsAnEmptyList) {
  EXPECT_EQ(traced({}), Json::array());
}

TEST(Trace, AFileThatCannotBeWrittenIsReported) {
  const std::string path = testing::TempDir() + "no/such/folder/trace.json";
  try {
    write_trace(path, {});
    FAIL() << "wrote nowhere";
  } catch (const RunError& error) {
    EXPECT_EQ(error.what(), "'" + path + "' cannot be written: No such file or directory");
  }
}

}  // namespace
}  // namespace twobw::telemetry
