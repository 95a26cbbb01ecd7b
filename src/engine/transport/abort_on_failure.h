// What a process does in a run of several: where it fails, all of them end.
#pragma once

#include <exception>
#include <string>

#include "core/base/error.h"
#include "engine/transport/hub.h"
#include "engine/transport/processes.h"

namespace twobw::transport {

// Does the work. What it throws is thrown here, after the others have been told why; where a wait was ended
// for a failure elsewhere, that is raised. `processes` may be null: there are no others.
template <typename Work>
auto abort_on_failure(Processes* processes, Work work) {
  try {
    return work();
  } catch (const Cancelled& cancelled) {
    if (processes == nullptr) throw;
    processes->abort(cancelled.what());  // of no effect but where nobody has
    processes->failure()->raise();
  } catch (const std::exception& error) {
    if (processes != nullptr) processes->abort(control::Failure::of(error));
    throw;
  }
}

}  // namespace twobw::transport
