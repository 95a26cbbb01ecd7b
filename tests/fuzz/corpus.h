// The inputs of a target that are in the repository: good ones, which must be accepted, and hostile ones,
// which must be refused with a certain sentence.
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

// The files of FOLDER/TARGET; FOLDER/sentences.tsv has a line for each hostile one: TARGET/FILE, a tab, and a
// part of its sentence. Throws InputError, also where such a file is missing.
Corpus load_corpus(const std::string& folder, const Target& target);

// The inputs of a target are numbered: first the files themselves, then mutations of them.
std::string make_input(const Corpus& corpus, const Target& target, std::uint64_t seed, std::uint64_t number);

}  // namespace twobw::fuzz
