// Taking memory of a GPU that several stages' threads share, and counting it.
#pragma once

#include <cstdint>
#include <mutex>

#include "engine/models/layer.h"

namespace twobw::runtime::gpu {

// Held by whoever captures a graph, or makes tensors that stay: captures exclude one another, and while
// memory is counted nobody else may take any.
std::mutex& capture_mutex();

// Bytes that tensors on the thread's GPU take beyond those that were there when this was made. Needs
// capture_mutex() for as long as it is asked; one at a time.
class Watermark {
 public:
  Watermark();
  double live() const;
  double peak() const;

 private:
  std::int64_t before_;
};

double bytes_of(const models::Tensors& tensors);

}  // namespace twobw::runtime::gpu
