// The value of data.train and data.validation: a corpus, or several blended by weight.
#pragma once

#include <string>
#include <vector>

namespace twobw {

struct Corpus {
  std::string path;   // a file, token files, or synthetic
  double weight = 1;  // its part of the sequences, beside the weights of the others
  friend bool operator==(const Corpus&, const Corpus&) = default;
};

using Corpora = std::vector<Corpus>;  // at least one

// "runs/a", or "70% of runs/a, 30% of runs/b".
std::string describe(const Corpora& corpora);

// Whether all of it is synthetic.
bool is_synthetic(const Corpora& corpora);

}  // namespace twobw
