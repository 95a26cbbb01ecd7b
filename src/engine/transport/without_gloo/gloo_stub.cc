// Stubs for builds without Gloo's headers.
#include "core/base/error.h"
#include "engine/transport/gloo_wire.h"

namespace twobw::transport {

bool built_with_gloo() {
  return false;
}

std::unique_ptr<Wire> gloo_wire(const GlooSetup&, const std::string&) {
  fail_run(
      "this program was built without Gloo, so it cannot run in several processes; install libgloo-dev "
      "and build it again");
}

}  // namespace twobw::transport
