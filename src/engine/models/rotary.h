// The angles of the rotary embedding by place, made once for all layers of a model. On CPUs not of all places
// at once: a model may have many more positions than there are tokens.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "core/base/config.h"

namespace twobw::models {

// Any thread may ask. Models that turn alike share one while any of them lives.
class RotaryTable {
 public:
  static std::shared_ptr<RotaryTable> of(const ModelConfig& config);

  explicit RotaryTable(const ModelConfig& config);

  // [length or more, head]: a place's head / 2 cosines, then its sines. The first time that a device asks (or
  // that a length does, where the angles depend on it), it is made and uploaded, which a graph cannot
  // capture; the calling thread waits. What was given out stays as it is when a longer one is made.
  at::Tensor angles(std::int64_t length, at::Device device);

 private:
  std::int64_t places_for(std::int64_t length, at::Device device) const;

  ModelConfig config_;
  std::mutex mutex_;
  std::map<std::pair<int, std::int64_t>, at::Tensor> tables_;  // by GPU (-1: the CPU), and by length
};

}  // namespace twobw::models
