#pragma once

#include <functional>

namespace twobw {

// Calls work(0), ..., work(count - 1), each on a thread of its own, and returns when all have ended; `work`
// must not throw. No call begins before all threads have started: calls that wait for each other would wait
// forever for a thread that the system refuses. In that case none is made, and std::system_error is thrown.
void run_on_threads(int count, const std::function<void(int)>& work);

}  // namespace twobw
