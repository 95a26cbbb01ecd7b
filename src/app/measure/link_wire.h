// An end of a link as a wire, so that the link is measured as a wire is (wire_link.h).
#pragma once

#include <ATen/ATen.h>

#include <memory>

#include "engine/transport/link.h"
#include "engine/transport/wire.h"

namespace twobw::measure {

// It has the ranks of `beneath`, and of them only the link's two; one end only sends, the other only
// receives. Tensors go from `device` to it, others by way of it. On a GPU what was received is there for what
// the thread queues next.
std::unique_ptr<transport::Wire> link_wire(transport::Wire& beneath, std::unique_ptr<transport::Link> link,
                                           const at::Device& device);

}  // namespace twobw::measure
