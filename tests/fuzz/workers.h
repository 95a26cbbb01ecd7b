// Runs many inputs of a target in worker processes: a crash or a hang ends one of them, and its input is
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
  double seconds = 0;  // time limit for the start of an input; 0: none
  int jobs = 1;
};

struct Failure {
  std::uint64_t number;  // of the input
  std::string problem;
};

struct Done {
  std::uint64_t inputs = 0, accepted = 0;
  std::vector<Failure> failures;  // at most one per job, which ends it
};

// Runs all inputs. Files of the corpus are compared with their expected results. An input may take a second
// of CPU time.
Done run_inputs(const Target& target, const Corpus& corpus, const Work& work);

// Runs input `number` and returns the problem with its result; empty: none.
std::string judge(const Target& target, const Corpus& corpus, std::uint64_t number, const std::string& input,
                  bool& accepted);

}  // namespace twobw::fuzz
