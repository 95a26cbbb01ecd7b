// The layout of a stage's parameters in its flat buffers.
//
// Weights, optimizer state and gradients share one numbering, with one exception: a tied parameter whose
// partner is on the same stage shares the partner's weights but has its own gradient, behind the others. So
// the sum of the two gradients rounds identically whether or not the partners share a stage.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "planning/architecture/layer.h"

namespace twobw::weights {

struct Parameter {
  architecture::Parameter spec;
  int layer = 0;                     // index in the model
  std::int64_t count = 0;            // elements
  std::int64_t offset = 0;           // into weights and optimizer state
  std::int64_t gradient_offset = 0;  // into gradients
  bool alias = false;                // tied to a parameter of this stage, whose weights it shares
};

// The two ends of a tie. Within a stage both are set; across stages the earlier one has `primary`, the later
// one `copy`.
struct Tie {
  int primary = -1;  // index of the parameter tied to; -1: on another stage
  int copy = -1;     // index of the tied parameter, or -1

  bool spans() const { return primary < 0 || copy < 0; }
};

class Layout {
 public:
  // The parameters of layers [first, last) of the model.
  Layout(const architecture::Model& model, int first, int last);

  std::span<const Parameter> parameters() const { return parameters_; }
  // The parameters of one layer: [begin, end) of parameters().
  std::pair<int, int> range(int layer) const;
  std::int64_t size() const { return size_; }
  // `count` rounded up to the alignment of parameters.
  static std::int64_t room_of(std::int64_t count);
  std::int64_t gradient_size() const { return gradient_size_; }
  // Ties with an end on this stage.
  const std::vector<Tie>& ties() const { return ties_; }
  int first_layer() const { return first_; }
  int last_layer() const { return last_; }

 private:
  int first_, last_;
  std::vector<Parameter> parameters_;
  std::vector<int> layer_begin_;
  std::vector<Tie> ties_;
  std::int64_t size_ = 0, gradient_size_ = 0;
};

// A part of a flat buffer.
struct Range {
  std::int64_t begin = 0, count = 0;

  std::int64_t end() const { return begin + count; }
  bool holds(std::int64_t element) const { return element >= begin && element < end(); }
  // That part of the buffer; undefined if the buffer is.
  at::Tensor of(const at::Tensor& flat) const { return flat.defined() ? flat.narrow(0, begin, count) : flat; }

  friend bool operator==(const Range&, const Range&) = default;
};

// A checksum of every layer's weights, tied copies included.
std::vector<std::uint64_t> layer_checksums(const Layout& layout, const at::Tensor& flat);

}  // namespace twobw::weights
