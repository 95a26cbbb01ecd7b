// All-gather of a flat buffer over replicas on slices of one GPU.
#include "engine/transport/gather.h"

#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>

#include <future>
#include <vector>

#include "engine/device/gpu_thread.h"

namespace twobw::transport {
namespace {

const std::vector<weights::Range> kOwners = {{0, 5 << 20}, {5 << 20, 0}, {5 << 20, 3 << 20}};

// Gathers parts that are still being computed, and queues an overwrite of the whole buffer right after.
bool gather_on_slice(Gather& gather, int replica) {
  constexpr int kTurns = 12, kAdditions = 20;
  const device::GpuThread binding({.gpu = 0, .slice = replica, .slices = 4});
  const auto options = at::TensorOptions(at::kCUDA).dtype(at::kFloat);
  const at::Tensor whole = at::empty({kOwners.back().end()}, options);
  std::vector<at::Tensor> seen;
  for (int turn = 0; turn < kTurns; ++turn) {
    whole.fill_(-1);
    const at::Tensor own = kOwners[replica].of(whole);
    own.fill_(10 * turn + replica - kAdditions);
    for (int i = 0; i < kAdditions; ++i) own.add_(1);
    gather.run(replica, whole);
    seen.push_back(whole.clone());
  }
  bool right = true;
  for (int turn = 0; turn < kTurns; ++turn) {
    for (int owner = 0; owner < std::ssize(kOwners); ++owner)
      right = kOwners[owner].of(seen[turn]).eq(10 * turn + owner).all().item<bool>() && right;
  }
  c10::cuda::getCurrentCUDAStream().synchronize();
  return right;
}

TEST(GatherOnGpu, GivesAllOfItToEveryReplica) {
  if (device::gpu_count() == 0) GTEST_SKIP() << "no GPU here";
  WaitHub hub(std::chrono::duration<double>(60));
  Gather gather(hub, kOwners, static_cast<int>(kOwners.size()));
  std::vector<std::future<bool>> replicas;
  for (int replica = 0; replica < std::ssize(kOwners); ++replica)
    replicas.push_back(
        std::async(std::launch::async, [&, replica] { return gather_on_slice(gather, replica); }));
  for (auto& replica : replicas) EXPECT_TRUE(replica.get());
}

}  // namespace
}  // namespace twobw::transport
