// "When the work queued so far is done", for work that is queued on a GPU. On a CPU everything is done when
// the call returns, and there is nothing to wait for.
#pragma once

#include <functional>
#include <memory>

namespace twobw::device {

// Null on a thread that computes on a CPU.
using StreamEvent = std::shared_ptr<void>;

// After everything that the calling thread's worker has queued so far.
StreamEvent record_stream_event();
// What the calling thread's worker queues from now on comes after it. Does not block the thread.
void await_stream_event(const StreamEvent& ready);
// Blocks the thread until it has come, leaving its core to others; false where `gives_up` said so before.
bool block_until(const StreamEvent& ready, const std::function<bool()>& gives_up);

}  // namespace twobw::device
