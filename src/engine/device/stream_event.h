// Completion of the work that a thread has queued on a GPU. On a CPU work is complete when its call returns.
#pragma once

#include <functional>
#include <memory>

namespace twobw::device {

// Null on a thread that computes on a CPU.
using StreamEvent = std::shared_ptr<void>;

// Completes after all work queued so far by the calling thread.
StreamEvent record_stream_event();
// Orders all work that the calling thread queues from now on after `ready`. Does not block.
void await_stream_event(const StreamEvent& ready);
// Blocks until `ready`, without spinning; false if `gives_up` returned true before.
bool block_until(const StreamEvent& ready, const std::function<bool()>& gives_up);

}  // namespace twobw::device
