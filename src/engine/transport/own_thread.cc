#include "engine/transport/own_thread.h"

#include "engine/transport/hub.h"
#include "planning/host/cores.h"

namespace twobw::transport {

std::thread start_own_thread(std::string name, OnFailure on_failure, std::function<void()> work) {
  return std::thread([name = std::move(name), on_failure = std::move(on_failure), work = std::move(work)] {
    device::unbind_thread(name);
    try {
      work();
    } catch (const Cancelled&) {
    } catch (...) {
      on_failure(name, std::current_exception());
    }
  });
}

}  // namespace twobw::transport
