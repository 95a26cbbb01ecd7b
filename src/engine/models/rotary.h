// The angles of the rotary embedding by position, shared by all layers of a model. On CPUs the table grows on
// demand: a model may have many more positions than tokens.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "core/base/config.h"

namespace twobw::models {

// Thread-safe. Models with the same frequencies share a table while any of them exists.
class RotaryTable {
 public:
  static std::shared_ptr<RotaryTable> of(const ModelConfig& config);

  explicit RotaryTable(const ModelConfig& config);

  // [length or more, head]: a position's head / 2 cosines, then its sines. The first call for a device (or
  // for a length, if the angles depend on it) builds and uploads the table and blocks, which a graph cannot
  // capture. Returned tables stay valid when a longer one is made.
  at::Tensor angles(std::int64_t length, at::Device device);

 private:
  std::int64_t places_for(std::int64_t length, at::Device device) const;

  ModelConfig config_;
  std::mutex mutex_;
  std::map<std::pair<int, std::int64_t>, at::Tensor> tables_;  // by GPU (-1: the CPU), and by length
};

}  // namespace twobw::models
