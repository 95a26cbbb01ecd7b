// What a process does in a run of several: where it fails, all of them end.
#pragma once

#include <exception>
#include <string>

#include "base/error.h"
#include "transport/hub.h"
#include "transport/processes.h"

namespace twobw::transport {

// Does the work. What it throws is thrown here, after the others have been told why; a wait that was ended
// for a failure elsewhere as a RunError with the reason. `processes` may be null: there are no others.
template <typename Work>
auto abort_on_failure(Processes* processes, Work work) {
  try {
    return work();
  } catch (const Cancelled& cancelled) {
    if (processes == nullptr) throw;
    processes->abort(cancelled.what());  // of no effect but where nobody has
    throw RunError(processes->abort_reason());
  } catch (const std::exception& error) {
    // LibTorch appends a stack trace from the second line on.
    const std::string what = error.what();
    if (processes != nullptr) processes->abort(what.substr(0, what.find('\n')));
    throw;
  }
}

}  // namespace twobw::transport
