#include "text/tokenizer/train_bpe.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <queue>

#include "core/base/error.h"
#include "core/base/text_file.h"
#include "text/tokenizer/byte_level.h"

namespace twobw::tokenizer {
namespace {

using IdPair = std::pair<Id, Id>;

struct PairHash {
  std::size_t operator()(const IdPair& pair) const {
    const auto left = static_cast<std::uint64_t>(static_cast<std::uint32_t>(pair.first));
    return (left << 32 | static_cast<std::uint32_t>(pair.second)) * 0x9E3779B97F4A7C15u;
  }
};

std::vector<AddedToken> as_added(const std::vector<std::string>& special) {
  std::vector<AddedToken> tokens;
  for (const std::string& content : special) tokens.push_back({.content = content, .special = true});
  return tokens;
}

// Bytes in the order of their visible characters, which is the order of ids in published vocabularies.
std::array<std::uint8_t, 256> bytes_in_order() {
  std::array<std::uint8_t, 256> bytes;
  std::iota(bytes.begin(), bytes.end(), 0);
  std::ranges::sort(bytes, {}, visible);
  return bytes;
}

// Words as ids, with the counts of all pairs, updated by every merge.
class Learner {
 public:
  Learner(const WordCounts& words, std::int64_t min_count) : min_count_(min_count) {
    std::array<Id, 256> id_of_byte{};
    for (const std::uint8_t byte : bytes_in_order()) {
      id_of_byte[byte] = static_cast<Id>(learned_.tokens.size());
      add_token(std::string(1, static_cast<char>(byte)));
    }
    for (const auto& [text, count] : words.counts()) {
      Word word{{}, count};
      for (const char byte : text) word.ids.push_back(id_of_byte[static_cast<std::uint8_t>(byte)]);
      words_.push_back(std::move(word));
    }
    for (std::size_t i = 0; i < words_.size(); ++i) count_pairs(i);
    for (const auto& [pair, found] : pairs_) heap_.push({found.count, pair});
  }

  LearnedBpe learn(std::size_t tokens) {
    while (learned_.tokens.size() < tokens && !heap_.empty()) {
      const Candidate best = heap_.top();
      heap_.pop();
      const std::int64_t count = pairs_[best.pair].count;
      if (count != best.count) {  // outdated by other merges
        if (count > 0) heap_.push({count, best.pair});
        continue;
      }
      if (count < min_count_) break;
      merge(best.pair);
    }
    return std::move(learned_);
  }

 private:
  struct Word {
    std::vector<Id> ids;
    std::int64_t count;
  };
  struct Found {
    std::int64_t count = 0;
    std::vector<std::uint32_t> words;  // words that have or had it
  };
  struct Candidate {
    std::int64_t count;
    IdPair pair;
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  Id add_token(const std::string& bytes) {
    const auto [found, added] = ids_.try_emplace(bytes, static_cast<Id>(learned_.tokens.size()));
    if (added) learned_.tokens.push_back(bytes);
    return found->second;
  }

  void change(const IdPair& pair, std::int64_t by, std::size_t word) {
    Found& found = pairs_[pair];
    found.count += by;
    const auto index = static_cast<std::uint32_t>(word);
    if (by > 0 && (found.words.empty() || found.words.back() != index)) found.words.push_back(index);
  }

  void count_pairs(std::size_t index) {
    const Word& word = words_[index];
    for (std::size_t i = 0; i + 1 < word.ids.size(); ++i) {
      change({word.ids[i], word.ids[i + 1]}, word.count, index);
    }
  }

  void merge(const IdPair& pair) {
    const Id merged = add_token(learned_.tokens[static_cast<std::size_t>(pair.first)] +
                                learned_.tokens[static_cast<std::size_t>(pair.second)]);
    learned_.merges.push_back(pair);
    const std::vector<std::uint32_t> places = std::move(pairs_[pair].words);
    new_pairs_.clear();
    for (const std::uint32_t place : places) merge_word_at(place, pair, merged);
    pairs_[pair] = {};
    std::ranges::sort(new_pairs_);
    new_pairs_.erase(std::unique(new_pairs_.begin(), new_pairs_.end()), new_pairs_.end());
    for (const IdPair& made : new_pairs_) heap_.push({pairs_[made].count, made});
  }

  // One pass in place.
  void merge_word_at(std::size_t index, const IdPair& pair, Id merged) {
    Word& word = words_[index];
    std::vector<Id>& ids = word.ids;
    std::size_t size = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (i + 1 == ids.size() || ids[i] != pair.first || ids[i + 1] != pair.second) {
        ids[size++] = ids[i];
        continue;
      }
      if (size > 0) {
        change({ids[size - 1], pair.first}, -word.count, index);
        gain({ids[size - 1], merged}, word.count, index);
      }
      if (i + 2 < ids.size()) {
        change({pair.second, ids[i + 2]}, -word.count, index);
        gain({merged, ids[i + 2]}, word.count, index);
      }
      ids[size++] = merged;
      ++i;
    }
    ids.resize(size);
  }

  void gain(const IdPair& pair, std::int64_t by, std::size_t word) {
    change(pair, by, word);
    new_pairs_.push_back(pair);
  }

  std::int64_t min_count_;
  LearnedBpe learned_;
  IdsByToken ids_;
  std::vector<Word> words_;
  std::unordered_map<IdPair, Found, PairHash> pairs_;
  std::vector<IdPair> new_pairs_;
  std::priority_queue<Candidate> heap_;
};

// JSON objects are written by hand in the order of ids, because the library's ordered objects take quadratic
// time.
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump();
}

std::string vocab_json(const LearnedBpe& bpe, const std::vector<std::string>& special) {
  std::string out;
  Id id = 0;
  const auto add = [&](const std::string& token) {
    out += fmt::format("{}{}:{}", id == 0 ? "{" : ",", quoted(token), id);
    ++id;
  };
  for (const std::string& token : bpe.tokens) add(visible_text(token));
  for (const std::string& token : special) add(token);
  return out + "}";
}

std::string merge_line(const LearnedBpe& bpe, const std::pair<Id, Id>& merge) {
  return visible_text(bpe.tokens[static_cast<std::size_t>(merge.first)]) + " " +
         visible_text(bpe.tokens[static_cast<std::size_t>(merge.second)]);
}

std::string added_tokens(const LearnedBpe& bpe, const std::vector<std::string>& special) {
  std::string out;
  for (std::size_t i = 0; i < special.size(); ++i) {
    out += fmt::format(R"({}{{"id":{},"content":{},"single_word":false,"lstrip":false,"rstrip":false,)"
                       R"("normalized":false,"special":true}})",
                       i == 0 ? "" : ",", bpe.tokens.size() + i, quoted(special[i]));
  }
  return out;
}

}  // namespace

WordCounts::WordCounts(const std::vector<std::string>& special) : special_(as_added(special)) {}

void WordCounts::add(std::string_view text) {
  const auto count_word = [this](std::string_view word) {
    const auto found = counts_.find(word);
    if (found != counts_.end()) {
      ++found->second;
    } else {
      counts_.emplace(word, 1);
    }
  };
  special_.split(
      text, [&](std::string_view part) { scan(Pattern::kGpt2, part, character_classes(), count_word); },
      [](const AddedToken&) {});
}

LearnedBpe learn_bpe(const WordCounts& words, std::size_t tokens, std::int64_t min_count) {
  return Learner(words, std::max<std::int64_t>(min_count, 1)).learn(tokens);
}

std::string tokenizer_json(const LearnedBpe& bpe, const std::vector<std::string>& special) {
  std::string merges;
  for (const auto& merge : bpe.merges) {
    merges += (merges.empty() ? "" : ",") + quoted(merge_line(bpe, merge));
  }
  constexpr const char* kByteLevel =
      R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})";
  return fmt::format(R"({{
"version":"1.0",
"truncation":null,
"padding":null,
"added_tokens":[{}],
"normalizer":null,
"pre_tokenizer":{},
"post_processor":null,
"decoder":{},
"model":{{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,"end_of_word_suffix":null,)"
                     R"("fuse_unk":false,"byte_fallback":false,"ignore_merges":false,
"vocab":{},
"merges":[{}]}}
}}
)",
                     added_tokens(bpe, special), kByteLevel, kByteLevel, vocab_json(bpe, special), merges);
}

void write_bpe(const LearnedBpe& bpe, const std::vector<std::string>& special, const std::string& folder) {
  for (const std::string& token : bpe.tokens) {
    if (std::ranges::find(special, visible_text(token)) != special.end()) {
      fail_input("the special token '{}' is also one that was learned; it must be text that does not occur",
                 visible_text(token));
    }
  }
  const std::filesystem::path path(folder);
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) fail_input("folder '{}' cannot be made: {}", folder, error.message());
  std::string merges = "#version: 0.2\n";
  for (const auto& merge : bpe.merges) merges += merge_line(bpe, merge) + "\n";
  write_text((path / "vocab.json").string(), vocab_json(bpe, special) + "\n");
  write_text((path / "merges.txt").string(), merges);
  write_text((path / "tokenizer.json").string(), tokenizer_json(bpe, special));
}

}  // namespace twobw::tokenizer
