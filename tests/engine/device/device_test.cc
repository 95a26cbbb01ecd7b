#include "engine/device/device.h"

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

}  // namespace
}  // namespace twobw::device
