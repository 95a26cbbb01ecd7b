// Links within a process, between GPUs and between slices of one.
#include "engine/transport/link.h"

#include "gpu_links.h"

namespace twobw::transport {
namespace {

struct LocalOnOneGpu {
  static std::string missing() { return gpus_missing(1); }
  static device::Device sender() { return half_gpu(0); }
  static device::Device receiver() { return half_gpu(1); }
  static std::unique_ptr<Link> make(WaitHub& hub) { return local_link(hub); }
  static constexpr bool kHandsOver = true;
};

// Stages on slices of one GPU, treated as if each had its own.
struct PeerOnOneGpu {
  static std::string missing() { return gpus_missing(1); }
  static device::Device sender() { return half_gpu(0); }
  static device::Device receiver() { return half_gpu(1); }
  static std::unique_ptr<Link> make(WaitHub& hub) { return peer_link(hub); }
  static constexpr bool kHandsOver = false;
};

struct PeerOnTwoGpus {
  static std::string missing() { return gpus_missing(2); }
  static device::Device sender() { return whole_gpu(0); }
  static device::Device receiver() { return whole_gpu(1); }
  static std::unique_ptr<Link> make(WaitHub& hub) { return peer_link(hub); }
  static constexpr bool kHandsOver = false;
};

INSTANTIATE_TYPED_TEST_SUITE_P(LocalOnOneGpu, Links, LocalOnOneGpu);
INSTANTIATE_TYPED_TEST_SUITE_P(LocalOnOneGpu, GpuLinks, LocalOnOneGpu);
INSTANTIATE_TYPED_TEST_SUITE_P(PeerOnOneGpu, Links, PeerOnOneGpu);
INSTANTIATE_TYPED_TEST_SUITE_P(PeerOnOneGpu, GpuLinks, PeerOnOneGpu);
INSTANTIATE_TYPED_TEST_SUITE_P(PeerOnTwoGpus, Links, PeerOnTwoGpus);
INSTANTIATE_TYPED_TEST_SUITE_P(PeerOnTwoGpus, GpuLinks, PeerOnTwoGpus);

}  // namespace
}  // namespace twobw::transport
