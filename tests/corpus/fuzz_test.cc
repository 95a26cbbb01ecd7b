#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <random>

#include "tests/corpus/testing.h"

namespace twobw::corpus {
namespace {

// Damages the bytes of an index: bits, numbers at the limits, missing, doubled and moved parts.
class Damage {
 public:
  explicit Damage(std::uint32_t seed) : random_(seed) {}

  std::string operator()(std::string bytes) {
    for (std::size_t times = 1 + below(3); times > 0 && !bytes.empty(); --times) change(bytes);
    return bytes;
  }

  std::size_t below(std::size_t limit) { return random_() % limit; }

 private:
  void change(std::string& bytes) {
    static constexpr std::uint64_t kNumbers[] = {0,          1,          2,          0x7F,       0xFF,
                                                 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1ULL << 32, 1ULL << 56,
                                                 1ULL << 60, 1ULL << 62, 1ULL << 63, ~0ULL};
    const std::size_t at = below(bytes.size());
    const std::size_t length = std::min(bytes.size() - at, 1 + below(12));
    switch (below(6)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 1: {
        const std::uint64_t number = kNumbers[below(std::size(kNumbers))];
        std::memcpy(bytes.data() + at, &number, std::min<std::size_t>(bytes.size() - at, 8));
        break;
      }
      case 2:
        bytes.erase(at, length);
        break;
      case 3:
        bytes.insert(at, bytes.substr(below(bytes.size()), length));
        break;
      case 4:  // a small change of a table's entry
        bytes[at] = static_cast<char>(bytes[at] + static_cast<char>(below(5)) - 2);
        break;
      default:
        if (below(4) == 0) bytes.resize(at);
    }
  }

  std::mt19937 random_;
};

testing::Index sound_index() {
  testing::Index index;
  index.lengths = {3, 0, 5, 8, 1};
  index.pointers = {0, 6, 6, 16, 32};
  index.documents = {0, 2, 2, 5};
  return index;
}

// Whatever was accepted must also be readable, every token of it.
void use(const IndexedFile& file) {
  summarize(file);
  for (std::int64_t i = 0; i < file.sequences(); ++i) file.mode(i);
  testing::Ids all(static_cast<std::size_t>(file.tokens()));
  file.read_stream(0, all);
  for (std::int64_t i = 0; i < file.documents(); ++i) document_tokens(file, i, 10);
}

// TWOBW_FUZZ_SECONDS=600 goes on for ten minutes.
TEST(CorpusFuzz, DamagedIndicesAreRefusedOrWork) {
  const char* const asked = std::getenv("TWOBW_FUZZ_SECONDS");
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::duration<double>(asked != nullptr ? std::atof(asked) : 0.3);
  const testing::Folder folder;
  Damage damage(1);
  std::int64_t tried = 0, loaded = 0;
  while (tried < 500 || std::chrono::steady_clock::now() < end) {
    testing::Index index = sound_index();
    if (damage.below(2) == 0) index.modes = {0, 1, 2, 3, 4};
    folder.write("x.bin", std::string(damage.below(4) == 0 ? damage.below(40) : 34, 'x'));
    folder.write("x.idx", damage(index.bytes()));
    ++tried;
    const std::string sentence = testing::refusal([&] {
      use(IndexedFile(folder.file("x")));
      ++loaded;
    });
    ASSERT_LT(sentence.size(), 1000u);
    ASSERT_EQ(sentence.find('\n'), std::string::npos);
  }
  EXPECT_GT(loaded, 0);
  EXPECT_GT(tried, loaded);
  if (asked != nullptr) GTEST_LOG_(INFO) << tried << " files, " << loaded << " of them loaded";
}

}  // namespace
}  // namespace twobw::corpus
