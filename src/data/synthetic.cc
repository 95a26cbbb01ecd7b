#include <fmt/format.h>

#include "base/random.h"
#include "data/sources.h"

namespace twobw::data {
namespace {

class SyntheticSource final : public Source {
 public:
  explicit SyntheticSource(int vocab) : vocab_(vocab) {}

  Batch random(std::uint64_t key, int b, int length, BatchFields fields) const override {
    return windows(b, length, fields, [&](int row, std::int64_t* to, int offset) {
      std::int64_t token = draw(random_key(key, row));
      for (int i = 0; i < length; ++i) {
        const std::int64_t next = follow(token, random_key(key, row, i));
        to[i] = offset == 0 ? token : next;
        token = next;
      }
    });
  }

  Batch sequential(std::int64_t index, int b, int length, BatchFields fields) const override {
    return random(random_key(hash_text("validation"), index), b, length, fields);
  }

  std::string describe() const override { return fmt::format("synthetic tokens below {}", vocab_); }

 private:
  std::int64_t draw(std::uint64_t key) const { return static_cast<std::int64_t>(key % vocab_); }
  std::int64_t follow(std::int64_t token, std::uint64_t key) const {
    return key % 4 == 0 ? draw(key >> 2) : (token * 31 + 7) % vocab_;
  }

  std::uint64_t vocab_;
};

}  // namespace

std::unique_ptr<Source> make_synthetic(int vocab) {
  return std::make_unique<SyntheticSource>(vocab);
}

}  // namespace twobw::data
