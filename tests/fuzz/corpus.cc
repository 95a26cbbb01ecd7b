#include "tests/fuzz/corpus.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>

#include "core/base/error.h"
#include "core/base/random.h"
#include "core/base/text_file.h"
#include "tests/fuzz/mutate.h"

namespace twobw::fuzz {
namespace {

namespace fs = std::filesystem;

// Sentences of one target, by file name.
std::map<std::string, std::string> read_sentences(const std::string& path, const std::string& target) {
  std::map<std::string, std::string> sentences;
  std::istringstream lines(read_text("list of sentences", path));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t slash = line.find('/'), tab = line.find('\t');
    if (slash == std::string::npos || tab == std::string::npos || tab < slash || tab + 1 == line.size())
      fail_input("'{}' has the line '{}'; it must be TARGET/FILE, a tab and a part of a sentence", path,
                 line);
    if (line.substr(0, slash) == target)
      sentences[line.substr(slash + 1, tab - slash - 1)] = line.substr(tab + 1);
  }
  return sentences;
}

}  // namespace

Corpus load_corpus(const std::string& folder, const Target& target) {
  auto sentences = read_sentences(folder + "/sentences.tsv", target.name);
  const std::string inside = folder + "/" + target.name;
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(inside, error), end; !error && at != end; at.increment(error))
    names.push_back(at->path().filename().string());
  if (names.empty()) fail_input("'{}' holds no inputs for the fuzz target {}", inside, target.name);
  std::ranges::sort(names);
  Corpus corpus;
  for (const std::string& name : names) {
    const auto sentence = sentences.extract(name);
    corpus.files.push_back({name, sentence.empty() ? "" : sentence.mapped()});
    corpus.texts.push_back(read_text("input", inside + "/" + name));
  }
  if (!sentences.empty())
    fail_input("'{}/sentences.tsv' names {}/{}, which is missing", folder, target.name,
               sentences.begin()->first);
  return corpus;
}

std::string make_input(const Corpus& corpus, const Target& target, std::uint64_t seed, std::uint64_t number) {
  if (number < corpus.texts.size()) return corpus.texts[number];
  Random random(random_key(seed, hash_text(target.name), number));
  return mutate(corpus.texts, target.shape, random);
}

}  // namespace twobw::fuzz
