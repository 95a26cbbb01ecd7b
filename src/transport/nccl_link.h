// A link between two GPUs of one process, by ncclSend and ncclRecv on streams of its own: a transfer waits
// for the work that the sender had queued, and holds up what the receiver queues next, but neither one's
// thread.
//
// The message waits in the process, as on a local link, and tells the receiver the shapes. The thread that
// receives it queues both halves, as one. So NCCL carries nothing but the numbers, and no GPU ever waits for
// a half that is not queued: whatever is queued ends by itself, also when the run is cancelled.
#pragma once

#include <memory>

#include "transport/link.h"

namespace twobw::transport {

class Hub;

// One thread at a time may receive. On one and the same GPU a rank sends to itself.
std::unique_ptr<Link> nccl_link(Hub& hub, int from_gpu, int to_gpu);

}  // namespace twobw::transport
