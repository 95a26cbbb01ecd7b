// Terms of memory use. A forecast has these terms (planning/planner/costs/memory_model.h) and a run counts
// them (engine/device/memory.h), so that each can be compared.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace twobw {

enum class Term {
  Weights,      // all versions kept
  Master,       // fp32 weights beside those computed with
  Gradients,    // one or two buffers
  Optimizer,    // moments
  Activations,  // saved for the backwards of the microbatches in flight
  Inputs,       // what came from the stage before, and the tokens, for the microbatches in flight
  Working,      // while a layer computes, and the saved bytes of one recomputed microbatch
  Transfer,     // on its way to a neighbour
};
inline constexpr int kTerms = 8;
std::string_view name(Term term);

// Bytes, by term.
struct Footprint {
  std::array<double, kTerms> bytes{};
  double& operator[](Term term) { return bytes[static_cast<std::size_t>(term)]; }
  double operator[](Term term) const { return bytes[static_cast<std::size_t>(term)]; }
  double total() const;
  friend bool operator==(const Footprint&, const Footprint&) = default;
};

}  // namespace twobw
