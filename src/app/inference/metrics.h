// Figures of an evaluation, from what a model told and what is true. No LibTorch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace twobw::inference {

// e to the loss, which is in nats.
double perplexity(double loss);

// Of so many nats over a text of so many bytes.
double bits_per_byte(double nats, double bytes);

// -log softmax(logits)[truth].
double cross_entropy(std::span<const float> logits, std::int64_t truth);

// The first of the greatest.
std::int64_t greatest(std::span<const float> logits);

// Counts of true and predicted classes.
class Confusion {
 public:
  explicit Confusion(int classes);

  void add(std::int64_t truth, std::int64_t predicted);

  std::int64_t count() const { return count_; }
  double accuracy() const;
  // Of two classes that of class 1; of more the mean over all classes that occur, as truth or as prediction.
  double f1() const;
  // Matthews' correlation coefficient, of any number of classes (Gorodkin 2004); 0 where all truths or all
  // predictions are of one class.
  double matthews() const;

 private:
  std::int64_t at(std::size_t truth, std::size_t predicted) const;
  double f1_of(std::size_t of) const;

  std::size_t classes_;
  std::int64_t count_ = 0;
  std::vector<std::int64_t> counts_;  // [truth, predicted]
  std::vector<std::int64_t> truths_, predictions_;
};

double mean_squared_error(std::span<const double> truths, std::span<const double> predictions);

// Not a number where one side is constant. Spearman's is Pearson's of the ranks; equal numbers share the mean
// of theirs.
double pearson(std::span<const double> a, std::span<const double> b);
double spearman(std::span<const double> a, std::span<const double> b);

}  // namespace twobw::inference
