#include "core/base/memory_terms.h"

#include <numeric>

namespace twobw {

std::string_view name(Term term) {
  switch (term) {
    case Term::Weights:
      return "weights";
    case Term::Master:
      return "master";
    case Term::Gradients:
      return "gradients";
    case Term::Optimizer:
      return "optimizer";
    case Term::Activations:
      return "activations";
    case Term::Inputs:
      return "inputs";
    case Term::Working:
      return "working";
    case Term::Transfer:
      return "transfer";
  }
  return "?";
}

double Footprint::total() const {
  return std::accumulate(bytes.begin(), bytes.end(), 0.0);
}

}  // namespace twobw
