#pragma once

namespace twobw::transport {

// Of one stage, whose buffers a kernel is told of at once.
constexpr int kMostReplicasOnGpus = 32;

}  // namespace twobw::transport
