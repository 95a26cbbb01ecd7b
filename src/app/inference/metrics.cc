// The metrics of an evaluation, and their texts.
#include "app/inference/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "core/base/error.h"
#include "planning/architecture/families.h"

namespace twobw::inference {
namespace {

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Ranks from 1; ties share their mean.
std::vector<double> ranks_of(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return values[i]; });
  std::vector<double> ranks(values.size());
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    const double shared = static_cast<double>(begin + 1 + end) / 2;
    for (std::size_t i = begin; i < end; ++i) ranks[order[i]] = shared;
  }
  return ranks;
}

}  // namespace

double perplexity(double loss) {
  return std::exp(loss);
}

double bits_per_byte(double nats, double bytes) {
  return nats / (std::log(2.0) * bytes);
}

double cross_entropy(std::span<const float> logits, std::int64_t truth) {
  const double most = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - most);
  return most + std::log(sum) - logits[static_cast<std::size_t>(truth)];
}

std::int64_t greatest(std::span<const float> logits) {
  return std::ranges::max_element(logits) - logits.begin();
}

Confusion::Confusion(int classes)
    : classes_(static_cast<std::size_t>(classes)),
      counts_(classes_ * classes_),
      truths_(classes_),
      predictions_(classes_) {}

void Confusion::add(std::int64_t truth, std::int64_t predicted) {
  const auto row = static_cast<std::size_t>(truth), column = static_cast<std::size_t>(predicted);
  TWOBW_ASSERT(row < classes_ && column < classes_, "class {} predicted as {} of {}", truth, predicted,
               classes_);
  ++counts_[row * classes_ + column];
  ++truths_[row];
  ++predictions_[column];
  ++count_;
}

double Confusion::accuracy() const {
  std::int64_t right = 0;
  for (std::size_t i = 0; i < classes_; ++i) right += at(i, i);
  return static_cast<double>(right) / static_cast<double>(count_);
}

double Confusion::f1_of(std::size_t of) const {
  const std::int64_t sum = truths_[of] + predictions_[of];
  return sum == 0 ? 0 : 2.0 * static_cast<double>(at(of, of)) / static_cast<double>(sum);
}

double Confusion::f1() const {
  if (classes_ == 2) return f1_of(1);
  double sum = 0;
  int occurring = 0;
  for (std::size_t i = 0; i < classes_; ++i) {
    if (truths_[i] + predictions_[i] == 0) continue;
    sum += f1_of(i);
    ++occurring;
  }
  return occurring == 0 ? 0 : sum / occurring;
}

double Confusion::matthews() const {
  const auto all = static_cast<double>(count_);
  double right = 0, both = 0, of_truths = 0, of_predictions = 0;
  for (std::size_t i = 0; i < classes_; ++i) {
    const auto t = static_cast<double>(truths_[i]), p = static_cast<double>(predictions_[i]);
    right += static_cast<double>(at(i, i));
    both += t * p;
    of_truths += t * t;
    of_predictions += p * p;
  }
  const double spread = (all * all - of_predictions) * (all * all - of_truths);
  return spread > 0 ? (right * all - both) / std::sqrt(spread) : 0;
}

double mean_squared_error(std::span<const double> truths, std::span<const double> predictions) {
  double sum = 0;
  for (std::size_t i = 0; i < truths.size(); ++i)
    sum += (predictions[i] - truths[i]) * (predictions[i] - truths[i]);
  return sum / static_cast<double>(truths.size());
}

double pearson(std::span<const double> a, std::span<const double> b) {
  // Rounding of the mean could leave sums above 0 for equal numbers.
  const auto is_constant = [](std::span<const double> values) {
    return std::ranges::all_of(values, [&](double value) { return value == values.front(); });
  };
  if (is_constant(a) || is_constant(b)) return std::numeric_limits<double>::quiet_NaN();
  const double mean_a = mean_of(a), mean_b = mean_of(b);
  double both = 0, of_a = 0, of_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    both += (a[i] - mean_a) * (b[i] - mean_b);
    of_a += (a[i] - mean_a) * (a[i] - mean_a);
    of_b += (b[i] - mean_b) * (b[i] - mean_b);
  }
  if (of_a == 0 || of_b == 0) return std::numeric_limits<double>::quiet_NaN();
  return both / std::sqrt(of_a * of_b);
}

double spearman(std::span<const double> a, std::span<const double> b) {
  return pearson(ranks_of(a), ranks_of(b));
}

Json to_json(const Evaluation& evaluation) {
  Json json;
  json["head"] = std::string(name(evaluation.head));
  json["sequences"] = evaluation.sequences;
  json["of_sequences"] = evaluation.available > 0 ? Json(evaluation.available) : Json(nullptr);
  const bool is_sequence = architecture::is_sequence_head(evaluation.head);
  if (!is_sequence) json["tokens"] = evaluation.counted;
  const auto add = [&](const char* key, const std::optional<double>& value) {
    json[key] = value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
  };
  add("loss", evaluation.loss);
  if (!is_sequence) add("perplexity", evaluation.perplexity);
  if (evaluation.head == ModelHead::CausalLm) add("bits_per_byte", evaluation.bits_per_byte);
  if (evaluation.head == ModelHead::Classification) {
    add("accuracy", evaluation.accuracy);
    add("f1", evaluation.f1);
    add("matthews", evaluation.matthews);
  }
  if (evaluation.head == ModelHead::Regression) {
    add("pearson", evaluation.pearson);
    add("spearman", evaluation.spearman);
  }
  return json;
}

std::string describe(const Evaluation& evaluation) {
  const auto shown = [](const std::optional<double>& value) {
    return value && std::isfinite(*value) ? fmt::format("{:.6g}", *value) : std::string("unknown");
  };
  std::string text;
  const auto add = [&](const char* what, const std::string& value, const char* more = "") {
    text += fmt::format("  {:<14} {}{}\n", what, value, more);
  };
  if (evaluation.head == ModelHead::Regression) {
    add("squared error", shown(evaluation.loss));
    add("pearson", shown(evaluation.pearson));
    add("spearman", shown(evaluation.spearman));
  } else if (evaluation.head == ModelHead::Classification) {
    add("loss", shown(evaluation.loss));
    add("accuracy", shown(evaluation.accuracy));
    add("f1", shown(evaluation.f1));
    add("matthews", shown(evaluation.matthews));
  } else {
    add("loss", shown(evaluation.loss),
        evaluation.head == ModelHead::MaskedLm ? " nats a masked token" : " nats a token");
    add("perplexity", shown(evaluation.perplexity));
    if (evaluation.head == ModelHead::CausalLm) add("bits per byte", shown(evaluation.bits_per_byte));
    add("tokens", fmt::format("{}", evaluation.counted));
  }
  std::string sequences = fmt::format("{}", evaluation.sequences);
  if (evaluation.available > evaluation.sequences) sequences += fmt::format(" of {}", evaluation.available);
  if (evaluation.sampled) sequences += ", the sample of training; --all evaluates every one";
  add("sequences", sequences);
  return text;
}

}  // namespace twobw::inference
