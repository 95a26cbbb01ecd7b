#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/base/config_kinds.h"
#include "core/base/json.h"

namespace twobw {
namespace {

Complaint must_be_corpora() {
  return std::string("be ") + kCorporaAllowed;
}

Complaint read_corpus(const YAML::Node& map, Corpus& corpus) {
  for (const auto& entry : map) {
    const std::string name = describe(entry.first);
    if (name == "path") {
      corpus.path = parse_scalar<std::string>(entry.second).value_or("");
    } else if (name == "weight") {
      const auto weight = parse_scalar<double>(entry.second);
      if (!weight)
        return fmt::format("have numbers as weights, and '{}' is not a number", describe(entry.second));
      corpus.weight = *weight;
    } else {
      return fmt::format("have a path and a weight in every entry, and '{}' is neither", name);
    }
  }
  return {};
}

}  // namespace

Complaint read_corpora(const YAML::Node& node, Corpora& corpora) {
  if (const auto path = parse_scalar<std::string>(node)) {
    corpora = {Corpus{.path = *path}};
    return {};
  }
  if (!node.IsSequence() || node.size() == 0) return must_be_corpora();
  Corpora read;
  for (const YAML::Node& entry : node) {
    if (!entry.IsMap()) return must_be_corpora();
    const Complaint complaint = read_corpus(entry, read.emplace_back());
    if (!complaint.empty()) return complaint;
  }
  corpora = std::move(read);
  return {};
}

std::string print_corpora(const Corpora& corpora) {
  if (corpora.size() == 1 && corpora.front().weight == 1) return print_scalar(corpora.front().path);
  std::vector<std::string> parts;
  for (const Corpus& corpus : corpora) {
    parts.push_back(fmt::format("{{path: {}, weight: {}}}", print_scalar(corpus.path), corpus.weight));
  }
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

Complaint check_corpora(const Corpora& corpora) {
  double sum = 0;
  for (const Corpus& corpus : corpora) {
    if (corpus.path.empty()) return corpora.size() == 1 ? must_be_corpora() : "have a path in every entry";
    if (!std::isfinite(corpus.weight) || corpus.weight <= 0)
      return fmt::format("have weights above 0, and that of '{}' is {}", shown_name(corpus.path),
                         corpus.weight);
    sum += corpus.weight;
  }
  for (const Corpus& corpus : corpora) {
    if (corpus.weight >= 1e-6 * sum) continue;
    return fmt::format("have weights of at least a millionth of their sum, and that of '{}' is {}",
                       shown_name(corpus.path), corpus.weight);
  }
  return corpora.empty() ? must_be_corpora() : Complaint{};
}

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
