#include "core/base/corpora.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace twobw {

std::string describe(const Corpora& corpora) {
  if (corpora.size() == 1) return corpora.front().path;
  double sum = 0;
  for (const Corpus& corpus : corpora) sum += corpus.weight;
  std::vector<std::string> parts;
  for (const Corpus& corpus : corpora)
    parts.push_back(fmt::format("{:.3g}% of {}", 100 * corpus.weight / sum, corpus.path));
  return fmt::format("{}", fmt::join(parts, ", "));
}

bool is_synthetic(const Corpora& corpora) {
  return std::ranges::all_of(corpora, [](const Corpus& corpus) { return corpus.path == "synthetic"; });
}

}  // namespace twobw
