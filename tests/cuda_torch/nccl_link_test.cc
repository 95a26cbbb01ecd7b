// Links by NCCL, as far as the GPUs here can show them: on one, a rank that sends to itself.
#include "transport/nccl_link.h"

#include "gpu_links.h"

namespace twobw::transport {
namespace {

struct NcclToItself {
  static std::string missing() { return gpus_missing(1); }
  static device::Device sender() { return whole_gpu(0); }
  static device::Device receiver() { return whole_gpu(0); }
  static std::unique_ptr<Link> make(Hub& hub) { return nccl_link(hub, 0, 0); }
  static constexpr bool kHandsOver = false;
};

struct NcclToAnother {
  static std::string missing() { return gpus_missing(2); }
  static device::Device sender() { return whole_gpu(0); }
  static device::Device receiver() { return whole_gpu(1); }
  static std::unique_ptr<Link> make(Hub& hub) { return nccl_link(hub, 0, 1); }
  static constexpr bool kHandsOver = false;
};

INSTANTIATE_TYPED_TEST_SUITE_P(NcclToItself, Links, NcclToItself);
INSTANTIATE_TYPED_TEST_SUITE_P(NcclToItself, GpuLinks, NcclToItself);
INSTANTIATE_TYPED_TEST_SUITE_P(NcclToAnother, Links, NcclToAnother);
INSTANTIATE_TYPED_TEST_SUITE_P(NcclToAnother, GpuLinks, NcclToAnother);

}  // namespace
}  // namespace twobw::transport
