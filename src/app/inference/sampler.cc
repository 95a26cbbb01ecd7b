#include "app/inference/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/base/random.h"
#include "text/tokenizer/utf8.h"

namespace twobw::inference {
namespace {

void check_finite(std::span<const float> logits) {
  if (!std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); }))
    fail_run("the model's logits are not finite: its weights are not, or its training has diverged");
}

// Applies once to each distinct token of the history.
void penalize(std::vector<double>& scores, std::span<const std::int64_t> history, double penalty) {
  if (penalty == 1) return;
  std::vector<std::int64_t> there(history.begin(), history.end());
  std::ranges::sort(there);
  there.erase(std::ranges::unique(there).begin(), there.end());
  for (const std::int64_t token : there) {
    double& score = scores[static_cast<std::size_t>(token)];
    score = score > 0 ? score / penalty : score * penalty;
  }
}

// The `count` likeliest tokens, best first; ties go to the lower id.
std::vector<std::size_t> top_tokens(const std::vector<double>& scores, std::size_t count) {
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

// Keeps the first tokens whose probabilities add up to p.
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
  penalize(scores, history, sampling.repetition_penalty);
  std::vector<double> result(scores.size(), 0.0);
  if (sampling.temperature == 0) {
    result[static_cast<std::size_t>(std::ranges::max_element(scores) - scores.begin())] = 1;
    return result;
  }
  for (double& score : scores) score /= sampling.temperature;
  if (sampling.top_k == 0 && sampling.top_p >= 1) return softmax(scores);
  const std::size_t most = sampling.top_k == 0 ? scores.size() : static_cast<std::size_t>(sampling.top_k);
  std::vector<std::size_t> kept = top_tokens(scores, most);
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
  std::int64_t last = 0;  // possible token, in case rounding leaves the sum below `random`
  for (std::size_t token = 0; token < chances.size(); ++token) {
    if (chances[token] == 0) continue;
    last = static_cast<std::int64_t>(token);
    sum += chances[token];
    if (sum > random) return last;
  }
  return last;
}

std::size_t begun_stop(std::string_view text, const std::vector<std::string>& stops) {
  std::size_t longest = 0;
  for (const std::string& stop : stops) {
    for (std::size_t size = std::min(stop.size(), text.size()); size > longest; --size) {
      if (text.ends_with(std::string_view(stop).substr(0, size))) longest = size;
    }
  }
  return longest;
}

TextStream::TextStream(const tokenizer::Tokenizer& tokenizer, std::vector<std::string> stops,
                       bool prompt_is_empty)
    : tokenizer_(tokenizer), stops_(std::move(stops)), first_(prompt_is_empty) {}

std::string TextStream::push(tokenizer::Id id) {
  if (stopped_ || tokenizer_.is_special(id)) return "";
  const std::size_t before = held_.size();
  tokenizer_.append_text(id, first_, held_);
  first_ = first_ && tokenizer_.begins_after(id, held_.size() != before);
  std::size_t end = std::string::npos;
  for (const std::string& stop : stops_) end = std::min(end, held_.find(stop));
  if (end != std::string::npos) {
    stopped_ = true;
    held_.resize(end);
  }
  return release(stopped_);
}

std::string TextStream::release(bool at_end) {
  std::size_t ready = held_.size();
  if (!at_end) {
    ready -= begun_stop(held_, stops_);
    ready -= tokenizer::unfinished_bytes(std::string_view(held_).substr(0, ready));
  }
  std::string shown = tokenizer::replace_invalid(std::string_view(held_).substr(0, ready));
  held_.erase(0, ready);
  return shown;
}

}  // namespace twobw::inference
