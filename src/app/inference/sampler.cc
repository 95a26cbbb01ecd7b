#include "app/inference/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/error.h"
#include "core/base/random.h"

namespace twobw::inference {
namespace {

void check_finite(std::span<const float> logits) {
  if (!std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); }))
    fail_run("the model's logits are not finite: its weights are not, or its training has diverged");
}

// Each token of the history once.
void penalise(std::vector<double>& scores, std::span<const std::int64_t> history, double penalty) {
  if (penalty == 1) return;
  std::vector<std::int64_t> there(history.begin(), history.end());
  std::ranges::sort(there);
  there.erase(std::ranges::unique(there).begin(), there.end());
  for (const std::int64_t token : there) {
    double& score = scores[static_cast<std::size_t>(token)];
    score = score > 0 ? score / penalty : score * penalty;
  }
}

// The tokens that may be drawn, likeliest first; of equals the first.
std::vector<std::size_t> likeliest(const std::vector<double>& scores, std::size_t count) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto before = [&](std::size_t a, std::size_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  };
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(std::min(count, order.size()));
  std::partial_sort(order.begin(), end, order.end(), before);
  order.erase(end, order.end());
  return order;
}

std::vector<double> softmax(const std::vector<double>& scores) {
  const double top = *std::ranges::max_element(scores);
  std::vector<double> result(scores.size());
  double sum = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) sum += result[i] = std::exp(scores[i] - top);
  for (double& value : result) value /= sum;
  return result;
}

// Leaves `kept` alone, of which the first together have the probability p.
void keep_nucleus(std::vector<std::size_t>& kept, const std::vector<double>& scores, double p) {
  if (p >= 1) return;
  std::vector<double> of_kept;
  for (const std::size_t token : kept) of_kept.push_back(scores[token]);
  const std::vector<double> chances = softmax(of_kept);
  double sum = 0;
  std::size_t count = 0;
  while (count < kept.size() && (count == 0 || sum < p)) sum += chances[count++];
  kept.resize(count);
}

}  // namespace

double uniform(std::uint64_t seed, std::int64_t prompt, std::int64_t place) {
  return static_cast<double>(random_key(seed, hash_text("sample"), prompt, place) >> 11) * 0x1p-53;
}

std::vector<double> probabilities(std::span<const float> logits, std::span<const std::int64_t> history,
                                  const Sampling& sampling) {
  check_finite(logits);
  std::vector<double> scores(logits.begin(), logits.end());
  penalise(scores, history, sampling.repetition_penalty);
  std::vector<double> result(scores.size(), 0.0);
  if (sampling.temperature == 0) {
    result[static_cast<std::size_t>(std::ranges::max_element(scores) - scores.begin())] = 1;
    return result;
  }
  for (double& score : scores) score /= sampling.temperature;
  if (sampling.top_k == 0 && sampling.top_p >= 1) return softmax(scores);
  const std::size_t most = sampling.top_k == 0 ? scores.size() : static_cast<std::size_t>(sampling.top_k);
  std::vector<std::size_t> kept = likeliest(scores, most);
  keep_nucleus(kept, scores, sampling.top_p);
  std::vector<double> of_kept;
  for (const std::size_t token : kept) of_kept.push_back(scores[token]);
  const std::vector<double> chances = softmax(of_kept);
  for (std::size_t i = 0; i < kept.size(); ++i) result[kept[i]] = chances[i];
  return result;
}

std::int64_t choose_token(std::span<const float> logits, std::span<const std::int64_t> history,
                          const Sampling& sampling, double random) {
  if (sampling.is_argmax()) {
    check_finite(logits);
    return std::ranges::max_element(logits) - logits.begin();
  }
  const std::vector<double> chances = probabilities(logits, history, sampling);
  double sum = 0;
  std::int64_t last = 0;  // with a chance, where rounding leaves the sum below `random`
  for (std::size_t token = 0; token < chances.size(); ++token) {
    if (chances[token] == 0) continue;
    last = static_cast<std::int64_t>(token);
    sum += chances[token];
    if (sum > random) return last;
  }
  return last;
}

}  // namespace twobw::inference
