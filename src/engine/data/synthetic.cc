#include <fmt/format.h>

#include "core/base/random.h"
#include "engine/data/sources.h"

namespace twobw::data {
namespace {

class MadeUpTokens {
 public:
  explicit MadeUpTokens(int vocab) : vocab_(vocab) {}

  std::int64_t token_for(std::uint64_t key) const { return static_cast<std::int64_t>(key % vocab_); }
  std::int64_t follow(std::int64_t token, std::uint64_t key) const {
    return key % 4 == 0 ? token_for(key >> 2) : (token * 31 + 7) % vocab_;
  }
  std::string describe() const { return fmt::format("synthetic tokens below {}", vocab_); }

 private:
  std::uint64_t vocab_;
};

class SyntheticSource final : public Source {
 public:
  explicit SyntheticSource(int vocab) : tokens_(vocab) {}

  Batch random(const Draw& draw, int b, int length, BatchFields fields) const override {
    return made_up(draw.key, b, length, fields);
  }

  Batch sequential(std::int64_t index, int b, int length, BatchFields fields) const override {
    return made_up(random_key(hash_text("validation"), index), b, length, fields);
  }

  std::string describe() const override { return tokens_.describe(); }

 private:
  Batch made_up(std::uint64_t key, int b, int length, BatchFields fields) const {
    return windows(b, length, fields, [&](int row, std::int64_t* to, int offset) {
      std::int64_t token = tokens_.token_for(random_key(key, row));
      for (int i = 0; i < length; ++i) {
        const std::int64_t next = tokens_.follow(token, random_key(key, row, i));
        to[i] = offset == 0 ? token : next;
        token = next;
      }
    });
  }

  MadeUpTokens tokens_;
};

// Token i is drawn anew where i is a multiple of kAnew, so that none depends on many before it.
class SyntheticStream final : public TokenStream {
 public:
  explicit SyntheticStream(int vocab) : tokens_(vocab) {}

  std::int64_t tokens() const override { return std::int64_t{1} << 40; }

  void read(std::int64_t from, std::span<std::int64_t> to) const override {
    std::int64_t token = 0;
    for (std::int64_t i = from / kAnew * kAnew; i < from + std::ssize(to); ++i) {
      const std::uint64_t key = random_key(hash_text("synthetic"), i);
      token = i % kAnew == 0 ? tokens_.token_for(key) : tokens_.follow(token, key);
      if (i >= from) to[static_cast<std::size_t>(i - from)] = token;
    }
  }

  bool has_documents() const override { return true; }
  std::int64_t document_end(std::int64_t token) const override { return (token / kDocument + 1) * kDocument; }

  std::string describe() const override { return tokens_.describe(); }

 private:
  static constexpr std::int64_t kAnew = 64, kDocument = 21;
  MadeUpTokens tokens_;
};

}  // namespace

std::unique_ptr<Source> make_synthetic(int vocab) {
  return std::make_unique<SyntheticSource>(vocab);
}

std::unique_ptr<TokenStream> make_synthetic_stream(int vocab) {
  return std::make_unique<SyntheticStream>(vocab);
}

}  // namespace twobw::data
