// The clock of a stream: when the device came to what was queued there.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <memory>

#include "engine/device/clock.h"

namespace twobw::device {

std::unique_ptr<Clock> make_stream_clock(cudaStream_t stream, std::chrono::steady_clock::time_point start);

}  // namespace twobw::device
