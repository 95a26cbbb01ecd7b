#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <stdexcept>

#include "core/base/error.h"
#include "tests/fuzz/memory_limit.h"
#include "tests/fuzz/target.h"

namespace twobw::fuzz {
namespace {

constexpr std::size_t kLeastMemory = std::size_t{64} << 20;
constexpr std::size_t kMemoryPerByte = 64;
constexpr std::size_t kLongestSentence = 2000;

std::string problem_of(std::string_view sentence) {
  if (sentence.empty()) return "it is refused without a sentence";
  if (sentence.size() > kLongestSentence) return fmt::format("it is refused with {} bytes", sentence.size());
  if (sentence.find('\n') != std::string_view::npos) return "it is refused with more than one line";
  return "";
}

}  // namespace

void read_safetensors(std::string_view input);
void read_safetensors_index(std::string_view input);
void read_huggingface_config(std::string_view input);
void read_indexed_file(std::string_view input);
void read_manifest_text(std::string_view input);
void read_profile(std::string_view input);
void read_config(std::string_view input);
void read_cluster(std::string_view input);
void read_tsv(std::string_view input);
void read_jsonl(std::string_view input);
void read_control_hello(std::string_view input);
void read_control_frames(std::string_view input);
// Null in a build without utf8proc.
[[gnu::weak]] void read_tokenizer(std::string_view input);
[[gnu::weak]] void read_vocab_merges(std::string_view input);
[[gnu::weak]] void read_vocab_list(std::string_view input);

const std::vector<Target>& targets() {
  static const std::vector<Target> here = [] {
    std::vector<Target> all = {
        {"safetensors", Shape::Json, read_safetensors},
        {"safetensors_index", Shape::Json, read_safetensors_index},
        {"huggingface_gpt2", Shape::Json, read_huggingface_config},
        {"huggingface_llama", Shape::Json, read_huggingface_config},
        {"huggingface_bert", Shape::Json, read_huggingface_config},
        {"indexed_file", Shape::Bytes, read_indexed_file},
        {"tokenizer_json", Shape::Json, read_tokenizer},
        {"vocab_merges", Shape::Json, read_vocab_merges},
        {"vocab_txt", Shape::Lines, read_vocab_list},
        {"manifest", Shape::Json, read_manifest_text},
        {"profile", Shape::Json, read_profile},
        {"tsv", Shape::Lines, read_tsv},
        {"jsonl", Shape::Json, read_jsonl},
        {"config", Shape::Lines, read_config},
        {"cluster", Shape::Lines, read_cluster},
        {"control_hello", Shape::Bytes, read_control_hello},
        {"control_frames", Shape::Bytes, read_control_frames},
    };
    std::erase_if(all, [](const Target& target) { return target.read == nullptr; });
    return all;
  }();
  return here;
}

const Target& find_target(std::string_view name) {
  std::vector<std::string> known;
  for (const Target& target : targets()) {
    if (name == target.name) return target;
    known.emplace_back(target.name);
  }
  fail_input("there is no fuzz target '{}'; there are {}", name, fmt::join(known, ", "));
}

Attempt attempt(const Target& target, std::string_view input) {
  Attempt made;
  const MemoryLimit limit(kLeastMemory + kMemoryPerByte * input.size());
  try {
    target.read(input);
    made.accepted = true;
  } catch (const InputError& error) {
    made.sentence = error.what();
    made.failure = problem_of(made.sentence);
  } catch (const std::exception& error) {
    made.failure = fmt::format("{} is thrown", error.what());
  } catch (...) {
    made.failure = "an object that is not an exception is thrown";
  }
  if (limit.exceeded()) made.failure = fmt::format("it takes more memory than {} bytes should", input.size());
  return made;
}

void fail(const std::string& problem) {
  throw std::logic_error(problem);
}

std::vector<std::string> split_files(std::string_view input, std::size_t count) {
  constexpr std::string_view kBetween = "\f\n";
  std::vector<std::string> files;
  while (files.size() < count) {
    const std::size_t stop = files.size() + 1 < count ? input.find(kBetween) : std::string_view::npos;
    files.emplace_back(input.substr(0, stop));
    input = stop == std::string_view::npos ? std::string_view() : input.substr(stop + kBetween.size());
  }
  return files;
}

}  // namespace twobw::fuzz
