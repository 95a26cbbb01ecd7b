#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/transport/gpu_paths.h"
#include "engine/transport/nccl_channel.h"

namespace twobw::transport {

// Every way and every sum has a channel of its own, so that none waits behind another. A thread watches them.
class NcclPaths final : public GpuPaths {
 public:
  NcclPaths(std::chrono::duration<double> timeout, OnFailure on_failure);
  ~NcclPaths() override;

  std::unique_ptr<GpuPath> connect(const LinkEnd& end) override;
  std::unique_ptr<GpuAdder> join(const Replicas& replicas, SumRanges ranges) override;
  std::unique_ptr<GpuGatherer> join_owners(const Replicas& replicas,
                                           std::vector<weights::Range> parts) override;
  void abort() override;

 private:
  std::shared_ptr<NcclChannel> open_for(const Replicas& replicas, std::string what);
  std::shared_ptr<NcclChannel> open(Wire& wire, int tag, const std::vector<int>& ranks, int gpu,
                                    std::string what);
  void greet(NcclChannel& channel, bool one_way);
  void await_greeting(NcclChannel& channel);
  void watch();

  std::shared_ptr<NcclShared> shared_;
  OnFailure on_failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  std::vector<std::shared_ptr<NcclChannel>> channels_;  // in the order that all processes make them in
  std::thread watcher_;
};

}  // namespace twobw::transport
