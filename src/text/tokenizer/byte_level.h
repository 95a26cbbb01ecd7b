// Byte-level BPE of GPT-2, Llama 3 and Qwen: a text is split into words, and the bytes of each are merged.
// Every text has an encoding, and decoding restores it byte for byte, unless the file asks for a normal form
// or lacks bytes.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/bpe.h"
#include "text/tokenizer/scan.h"
#include "text/tokenizer/unicode.h"
#include "text/tokenizer/vocabulary.h"

namespace twobw::tokenizer {

// Alphabet of the files: the printable bytes of Latin-1 as themselves, the other 68 bytes as the characters
// from U+0100 on, in order. The space is U+0120.
char32_t visible(std::uint8_t byte);
std::string visible_text(std::string_view bytes);

struct ByteLevelModel {
  Vocabulary vocabulary;  // in the visible alphabet; moved into the tokenizer
  MergeTable merges{0};
  Pattern pattern = Pattern::kGpt2;
  bool compose = false;        // to normal form C first
  bool prefix_space = false;   // prepends a space to a text that does not begin with one
  bool ignore_merges = false;  // a word that is a token needs no merges
  std::optional<Id> unknown;   // for bytes without a token
  bool fuse_unknown = false;
};

// Cache of the ids of words, as a text repeats few words. It holds words of up to 15 bytes and four ids in a
// fixed size: a new word evicts the oldest one of its bucket. For one thread at a time.
class WordCache {
 public:
  static constexpr std::size_t kLongest = 15;
  static constexpr Id kNone = -1;

  struct Entry {
    std::uint64_t low, high;  // word, zeros, and length as the last byte
    std::array<Id, 4> ids;    // kNone after the last

    std::size_t count() const {
      return static_cast<std::size_t>((ids[0] >= 0) + (ids[1] >= 0) + (ids[2] >= 0) + (ids[3] >= 0));
    }
  };

  struct Key {
    std::uint64_t low, high;
  };

  // `word` has 1 to 15 bytes; memory is readable up to `end`.
  static Key key(std::string_view word, const char* end) {
    std::array<std::uint64_t, 2> words{};
    if (std::endian::native == std::endian::little && end - word.data() >= 16) {
      std::memcpy(words.data(), word.data(), 16);
      words[0] &= kMasks[word.size()][0];
      words[1] &= kMasks[word.size()][1];
    } else {
      std::memcpy(words.data(), word.data(), word.size());
    }
    return {words[0], words[1] | static_cast<std::uint64_t>(word.size()) << kLengthShift};
  }

  // Null: not cached.
  const Entry* find(const Key& key) const {
    const Entry* const pair = &pairs_[home(key)].entries[0];
    if (pair[0].low == key.low && pair[0].high == key.high) return pair;
    if (pair[1].low == key.low && pair[1].high == key.high) return pair + 1;
    return nullptr;
  }

  void insert(const Key& key, const std::array<Id, 4>& ids) {
    std::array<Entry, 2>& pair = pairs_[home(key)].entries;
    pair[1] = pair[0];
    pair[0] = {key.low, key.high, ids};
  }

 private:
  static constexpr std::size_t kPairs = std::size_t{1} << 15;  // 2 MiB
  static constexpr int kLengthShift = std::endian::native == std::endian::little ? 56 : 0;
  // Masks of the bytes of a word, by length.
  static constexpr std::array<std::array<std::uint64_t, 2>, kLongest + 1> kMasks = [] {
    std::array<std::array<std::uint64_t, 2>, kLongest + 1> masks{};
    for (std::size_t length = 0; length <= kLongest; ++length) {
      for (std::size_t byte = 0; byte < length; ++byte) {
        masks[length][byte / 8] |= std::uint64_t{0xFF} << (byte % 8 * 8);
      }
    }
    return masks;
  }();

  struct alignas(64) Pair {
    std::array<Entry, 2> entries;
  };

  static std::size_t home(const Key& key) {
    const std::uint64_t mixed =
        (key.low ^ std::rotr(key.high * 0x9E3779B97F4A7C15u, 29)) * 0xD6E8FEB86659FD93u;
    return (mixed ^ mixed >> 32) % kPairs;
  }

  std::vector<Pair> pairs_ = std::vector<Pair>(kPairs);
};

// Caches for concurrent callers: each borrows one, which returns to the pool at the end.
class WordCachePool {
 public:
  using Borrowed = std::unique_ptr<WordCache, std::function<void(WordCache*)>>;

  Borrowed borrow() {
    std::unique_ptr<WordCache> cache;
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        cache = std::move(free_.back());
        free_.pop_back();
      }
    }
    if (!cache) cache = std::make_unique<WordCache>();
    return Borrowed(cache.release(), [this](WordCache* used) {
      const std::lock_guard lock(mutex_);
      free_.emplace_back(used);
    });
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<WordCache>> free_;
};

class IdBuffer;

class ByteLevelBpe : public VocabularyTokenizer {
 public:
  ByteLevelBpe(ByteLevelModel model, const SpecialTokens& tokens);

  void encode(std::string_view text, std::vector<Id>& ids) const override;
  void append_text(Id id, bool first, std::string& text) const override;
  std::string describe() const override;

 private:
  void encode_part(std::string_view part, WordCache& cache, IdBuffer& ids) const;
  std::vector<Id> encode_word(std::string_view word) const;

  ByteLevelModel model_;
  ByteIds byte_ids_;
  std::vector<std::string> bytes_;  // of every id
  IdsByToken whole_words_;          // by their bytes, for ignore_merges
  const CharacterClasses& classes_;
  mutable WordCachePool caches_;
};

}  // namespace twobw::tokenizer
