// Evaluation of a model on data: its loss, and the metrics of its head.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "app/inference/model_source.h"
#include "core/base/json.h"
#include "core/base/kinds.h"

namespace twobw::inference {

// exp(loss), of a loss in nats.
double perplexity(double loss);

// From the total loss and the length of the text.
double bits_per_byte(double nats, double bytes);

// -log softmax(logits)[truth].
double cross_entropy(std::span<const float> logits, std::int64_t truth);

// Index of the maximum; the first of equal ones.
std::int64_t greatest(std::span<const float> logits);

// Counts of true and predicted classes.
class Confusion {
 public:
  explicit Confusion(int classes);

  void add(std::int64_t truth, std::int64_t predicted);

  std::int64_t count() const { return count_; }
  double accuracy() const;
  // For two classes that of class 1, else the mean over all classes that occur in truths or predictions.
  double f1() const;
  // Matthews' correlation coefficient for any number of classes (Gorodkin 2004); 0 if all truths or all
  // predictions are of one class.
  double matthews() const;

 private:
  std::int64_t at(std::size_t truth, std::size_t predicted) const {
    return counts_[truth * classes_ + predicted];
  }
  double f1_of(std::size_t of) const;

  std::size_t classes_;
  std::int64_t count_ = 0;
  std::vector<std::int64_t> counts_;  // [truth, predicted]
  std::vector<std::int64_t> truths_, predictions_;
};

double mean_squared_error(std::span<const double> truths, std::span<const double> predictions);

// NaN if one side is constant. Spearman's correlation is Pearson's of the ranks; ties share their mean rank.
double pearson(std::span<const double> a, std::span<const double> b);
double spearman(std::span<const double> a, std::span<const double> b);

struct Evaluation {
  ModelHead head = ModelHead::CausalLm;
  std::int64_t sequences = 0;
  std::int64_t available = 0;  // sequences in the data; 0: unknown or endless
  bool sampled = false;        // a part of the data, as in training
  std::int64_t counted = 0;    // targets, labels or values with a loss
  double loss = 0;             // mean in nats; regression: mean squared error
  // Language models.
  std::optional<double> perplexity = {};
  std::optional<double> bits_per_byte = {};  // causal_lm with a tokenizer
  // Classification.
  std::optional<double> accuracy = {}, f1 = {}, matthews = {};
  // Regression; NaN if all values or all predictions are equal.
  std::optional<double> pearson = {}, spearman = {};
};

// Evaluates source.sample sequences if set, else every sequence once, file by file and unweighted; of endless
// data train.eval_microbatches microbatches. Throws InputError.
Evaluation evaluate(const ModelSource& source);

Json to_json(const Evaluation& evaluation);

// Lines to print.
std::string describe(const Evaluation& evaluation);

}  // namespace twobw::inference
