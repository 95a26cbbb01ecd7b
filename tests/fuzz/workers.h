// Inputs of a target, many, in processes of their own: a crash or a hang ends one of them, and the input is
// known.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/fuzz/corpus.h"
#include "tests/fuzz/target.h"

namespace twobw::fuzz {

struct Work {
  std::uint64_t seed = 1;
  std::uint64_t inputs = 0;
  double seconds = 0;  // after which no input begins; 0: no limit
  int jobs = 1;
};

struct Failure {
  std::uint64_t number;  // of the input
  std::string what;
};

struct Done {
  std::uint64_t inputs = 0, accepted = 0;
  std::vector<Failure> failures;  // at most one a job, which ends with it
};

// The files of the corpus are held against what is expected of them. An input may take a second of a
// processor's time.
Done run_inputs(const Target& target, const Corpus& corpus, const Work& work);

// What is wrong with how an input was taken; empty: nothing.
std::string judge(const Target& target, const Corpus& corpus, std::uint64_t number, const std::string& input,
                  bool& accepted);

}  // namespace twobw::fuzz
