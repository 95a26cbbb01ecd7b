// The links between GPUs of two processes, measured by what a pipeline would join them with: NCCL, with a
// word by way of the host ahead of every transfer (engine/transport/gpu_paths.h).
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>

#include "app/measure/host_rounds.h"
#include "app/measure/wire_link.h"
#include "engine/device/device.h"
#include "engine/transport/gpu_paths.h"
#include "engine/transport/processes.h"
#include "engine/transport/remote_link.h"
#include "engine/transport/wait_hub.h"

namespace twobw::measure {

// Made by all processes, whether or not they have a part, and gone before a pipeline is: it counts as one of
// theirs (engine/transport/processes.h).
class GpuLinks {
 public:
  using MakePaths = std::function<std::unique_ptr<transport::GpuPaths>(std::chrono::duration<double> timeout,
                                                                       transport::OnFailure on_failure)>;

  // `device`: a GPU of this process. `timeout`: seconds, to join two and of any wait.
  GpuLinks(transport::Processes& processes, const device::Device& device, double timeout,
           const MakePaths& make_paths = transport::nccl_paths);
  ~GpuLinks();
  GpuLinks(const GpuLinks&) = delete;
  GpuLinks& operator=(const GpuLinks&) = delete;

  // Called by the pair, each two once. The link, where this process is the one that asks. Throws RunError.
  std::optional<WireLink> measure(const RankPair& pair, double seconds);

 private:
  std::optional<WireLink> measure_bound(const RankPair& pair, double seconds);
  transport::RemoteEnd join(transport::Wire& wire, int peer, bool sends);
  std::unique_ptr<transport::Wire> open(transport::RemoteEnd end, bool sends, const at::Device& device);
  void fail(const std::exception_ptr& failure);

  transport::Processes& processes_;
  device::Device device_;
  transport::WaitHub hub_;
  std::unique_ptr<transport::GpuPaths> paths_;
  int tag_ = 0;  // the first
};

}  // namespace twobw::measure
