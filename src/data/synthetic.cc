#include <fmt/format.h>

#include "base/random.h"
#include "data/sources.h"

namespace twobw::data {
namespace {

class SyntheticSource final : public Source {
 public:
  explicit SyntheticSource(int vocab) : vocab_(vocab) {}

  Batch random(const Draw& draw, int b, int length, BatchFields fields) const override {
    return made_up(draw.key, b, length, fields);
  }

  Batch sequential(std::int64_t index, int b, int length, BatchFields fields) const override {
    return made_up(random_key(hash_text("validation"), index), b, length, fields);
  }

  std::string describe() const override { return fmt::format("synthetic tokens below {}", vocab_); }

 private:
  Batch made_up(std::uint64_t key, int b, int length, BatchFields fields) const {
    return windows(b, length, fields, [&](int row, std::int64_t* to, int offset) {
      std::int64_t token = token_for(random_key(key, row));
      for (int i = 0; i < length; ++i) {
        const std::int64_t next = follow(token, random_key(key, row, i));
        to[i] = offset == 0 ? token : next;
        token = next;
      }
    });
  }

  std::int64_t token_for(std::uint64_t key) const { return static_cast<std::int64_t>(key % vocab_); }
  std::int64_t follow(std::int64_t token, std::uint64_t key) const {
    return key % 4 == 0 ? token_for(key >> 2) : (token * 31 + 7) % vocab_;
  }

  std::uint64_t vocab_;
};

}  // namespace

std::unique_ptr<Source> make_synthetic(int vocab) {
  return std::make_unique<SyntheticSource>(vocab);
}

}  // namespace twobw::data
