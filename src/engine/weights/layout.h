// Where every parameter of a stage lies in its flat buffers.
//
// Weights, optimizer state and gradients use one numbering, with one exception: a tied parameter
// whose partner lives on the same stage shares the partner's weights but has gradients of its own,
// past the end of the others. So the sum of the two gradients rounds alike whether the partners
// share a stage or not.
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
  bool alias = false;                // shares the weights of a partner on this stage
};

// The two ends of a tie. On one stage: both set. Across stages: the one holds `primary`, a later one `copy`.
struct Tie {
  int primary = -1;  // index of the parameter tied to, or -1 where it lives elsewhere
  int copy = -1;     // index of the parameter that is tied, or -1

  bool spans() const { return primary < 0 || copy < 0; }
};

class Layout {
 public:
  // For layers [first, last) of the model.
  Layout(const architecture::Model& model, int first, int last);

  std::span<const Parameter> parameters() const { return parameters_; }
  // The parameters of one layer: [begin, end) of parameters().
  std::pair<int, int> range(int layer) const;
  std::int64_t size() const { return size_; }
  // Elements from where a parameter of so many begins to where the next one may.
  static std::int64_t room_of(std::int64_t count);
  std::int64_t gradient_size() const { return gradient_size_; }
  // Empty when the stage takes part in no tie.
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
  // That part of the buffer, if it is one.
  at::Tensor of(const at::Tensor& flat) const { return flat.defined() ? flat.narrow(0, begin, count) : flat; }

  friend bool operator==(const Range&, const Range&) = default;
};

// One number a layer of the layout that changes with any bit of its weights; tied copies count too.
std::vector<std::uint64_t> layer_checksums(const Layout& layout, const at::Tensor& flat);

}  // namespace twobw::weights
