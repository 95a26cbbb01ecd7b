#include "engine/device/cpu.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <mutex>

#include "engine/device/memory.h"

namespace twobw::device {

void bind_thread(const std::string& name, const CoreSet& set) {
  pin_thread(name, set);
  if (set.cores.empty()) return;
  // OpenMP keeps this per calling thread; its helpers inherit the affinity set above.
  at::set_num_threads(static_cast<int>(set.cores.size()));
}

void initialize() {
  static std::once_flag once;
  std::call_once(once, [] {
    install_allocator();
#if defined(__aarch64__)
    // On aarch64 oneDNN runs fp32 products through Arm Compute, whose scheduler locks and ignores a thread's
    // core count; the BLAS is as fast and respects it.
    at::globalContext().setUserEnabledMkldnn(false);
#endif
  });
}

}  // namespace twobw::device
