// Several plans tried on a GPU, one after the other in one process.
#include "app/measure/trials.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <gtest/gtest.h>

#include "core/base/config.h"
#include "engine/device/device.h"
#include "engine/device/gpu_thread.h"

namespace twobw::measure {
namespace {

std::int64_t taken_from_the_gpu() {
  return c10::cuda::CUDACachingAllocator::getDeviceStats(0).reserved_bytes[0].current;
}

Config with(std::vector<std::string> settings) {
  settings.insert(settings.end(), {"model.layers=4", "model.width=256", "model.heads=4", "model.vocab=512",
                                   "model.context=128", "pipeline.microbatch=2", "train.precision=bf16"});
  return load_config("", settings);
}

// Otherwise later runs would have less memory.
TEST(TrialsOnGpu, RunsGiveTheirMemoryBack) {
  if (device::gpu_count() == 0) GTEST_SKIP() << "no GPU here";
  device::initialize();
  const std::vector<Config> runs = {
      with({"pipeline.schedule=2bw", "pipeline.stages=4", "pipeline.microbatches=4", "devices=[cuda:0/4]"}),
      with({"pipeline.schedule=2bw", "pipeline.stages=2", "pipeline.replicas=2", "pipeline.microbatches=2",
            "devices=[cuda:0/4]"}),
      with({"pipeline.schedule=flush", "pipeline.stages=1", "pipeline.replicas=4", "pipeline.microbatches=1",
            "devices=[cuda:0/4]"})};
  at::empty({1}, at::kCUDA);  // LibTorch's allocator is there once it was asked
  device::release_unused_gpu_memory();
  const std::int64_t before = taken_from_the_gpu();
  for (const Config& config : runs) {
    try_run(config);
    EXPECT_EQ(taken_from_the_gpu(), before) << to_yaml(config);
  }
}

}  // namespace
}  // namespace twobw::measure
