// In place of peer_link.cc where LibTorch or the build has no CUDA: nobody is on a GPU then.
#include "core/base/error.h"
#include "engine/transport/link.h"

namespace twobw::transport {

std::unique_ptr<Link> peer_link(Hub&) {
  fail_run("this program was built without CUDA");
}

}  // namespace twobw::transport
