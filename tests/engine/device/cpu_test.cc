#include "engine/device/cpu.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <thread>

namespace twobw::device {
namespace {

TEST(Cpu, ABoundThreadComputesOnItsCoresAlone) {
  std::thread([] {
    bind_thread("stage", {{available_cores().back()}});
    EXPECT_EQ(available_cores().size(), 1u);
    EXPECT_EQ(at::get_num_threads(), 1);
  }).join();
}

TEST(Cpu, AnEmptySetBindsNothing) {
  std::thread([] {
    const std::vector<int> before = available_cores();
    const int threads = at::get_num_threads();
    bind_thread("free", {});
    EXPECT_EQ(available_cores(), before);
    EXPECT_EQ(at::get_num_threads(), threads);
  }).join();
}

}  // namespace
}  // namespace twobw::device
