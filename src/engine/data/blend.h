// From which of several corpora a sequence is, by their weights. A pattern that repeats: in every prefix of
// it each corpus has its part to within one sequence, and at its end exactly.
#pragma once

#include <cstdint>
#include <vector>

namespace twobw::data {

class Blend {
 public:
  // At least one weight, each of at least a millionth of their sum. They count to a millionth of it; those
  // whose proportions are exact in a pattern of at most kLongest sequences, such as 0.7 and 0.3, count as
  // they are.
  explicit Blend(const std::vector<double>& weights);

  struct Place {
    std::size_t corpus;
    std::int64_t number;  // of the corpus's sequences
  };
  Place operator()(std::int64_t sequence) const;

  static constexpr std::int64_t kLongest = 1 << 20;
  std::int64_t period() const { return static_cast<std::int64_t>(turns_.size()); }

 private:
  struct Turn {
    std::int32_t corpus;
    std::int32_t number;  // of the corpus's within the period
  };
  std::vector<std::int64_t> parts_;  // sequences of each corpus in a period
  std::vector<Turn> turns_;
};

}  // namespace twobw::data
