// Inputs of a target in the repository: valid ones, which must be accepted, and hostile ones, which must be
// refused with a certain sentence.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/fuzz/target.h"

namespace twobw::fuzz {

struct Corpus {
  struct File {
    std::string name;
    std::string sentence;  // a part of it; empty: the file must be accepted
  };
  std::vector<File> files;
  std::vector<std::string> texts;  // of these
};

// Loads the files of FOLDER/TARGET. FOLDER/sentences.tsv has a line for each hostile one: TARGET/FILE, a tab,
// and a part of its sentence. Throws InputError, also if such a file is missing.
Corpus load_corpus(const std::string& folder, const Target& target);

// Input `number` of a target: first the files, then mutations of them.
std::string make_input(const Corpus& corpus, const Target& target, std::uint64_t seed, std::uint64_t number);

}  // namespace twobw::fuzz
