#pragma once

namespace twobw::device {

// Bytes that the system could still give this process, its container's limit included.
double available_memory();

}  // namespace twobw::device
