// Terms of memory use. A forecast has these terms (planning/planner/costs/memory_model.h) and a run counts
// them (engine/device/memory.h), so that each can be compared.
#pragma once

#include <array>
#include <cstddef>
#include <numeric>
#include <string_view>

namespace twobw {

enum class Term {
  Weights,      // all versions kept
  Master,       // fp32 weights in addition to those computed with
  Gradients,    // one or two buffers
  Optimizer,    // moments
  Activations,  // saved for the backwards of the microbatches in flight
  Inputs,       // inputs from the stage before, and tokens, of the microbatches in flight
  Working,      // while a layer computes, and the saved bytes of one recomputed microbatch
  Transfer,     // in transfer to a neighbor
};
inline constexpr int kTerms = 8;

inline std::string_view name(Term term) {
  constexpr std::string_view kNames[kTerms] = {"weights",     "master", "gradients", "optimizer",
                                               "activations", "inputs", "working",   "transfer"};
  return kNames[static_cast<std::size_t>(term)];
}

// Bytes, by term.
struct Footprint {
  std::array<double, kTerms> bytes{};
  double& operator[](Term term) { return bytes[static_cast<std::size_t>(term)]; }
  double operator[](Term term) const { return bytes[static_cast<std::size_t>(term)]; }
  double total() const { return std::accumulate(bytes.begin(), bytes.end(), 0.0); }
  friend bool operator==(const Footprint&, const Footprint&) = default;
};

}  // namespace twobw
