#include "text/corpus/indexed_file.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/text/corpus/testing.h"
#include "text/corpus/summary.h"

namespace twobw::corpus {
namespace {

using testing::Folder;
using testing::has;
using testing::Ids;
using testing::Index;
using testing::put;

// Three sequences of uint16 in two documents.
Index small_index() {
  Index index;
  index.lengths = {2, 0, 3};
  index.pointers = {0, 4, 4};
  index.documents = {0, 2, 3};
  return index;
}

class IndexedFileTest : public ::testing::Test {
 protected:
  IndexedFileTest() {
    std::string bin;
    for (const int token : {1, 2, 65535, 4, 5}) put(bin, static_cast<std::uint16_t>(token));
    folder_.write("x.bin", bin);
  }

  IndexedFile open(const Index& index) {
    folder_.write("x.idx", index.bytes());
    return IndexedFile(folder_.file("x"));
  }
  std::string refusal(const std::string& index) {
    folder_.write("x.idx", index);
    return error_of([&] { IndexedFile(folder_.file("x")); });
  }

  Folder folder_;
};

TEST_F(IndexedFileTest, ReadsSequencesAndDocuments) {
  folder_.write("x.idx", small_index().bytes());
  for (const char* name : {"x", "x.idx", "x.bin"}) {
    const IndexedFile file(folder_.file(name));
    EXPECT_EQ(file.type(), TokenType::kUint16);
    EXPECT_EQ(file.sequences(), 3);
    EXPECT_EQ(file.documents(), 2);
    EXPECT_EQ(file.tokens(), 5);
    EXPECT_FALSE(file.has_modes());
    EXPECT_EQ(file.unused_bytes(), 0);
    EXPECT_EQ(testing::sequence(file, 0), (Ids{1, 2}));
    EXPECT_EQ(testing::sequence(file, 1), (Ids{}));
    EXPECT_EQ(testing::sequence(file, 2), (Ids{65535, 4, 5}));
    EXPECT_EQ(file.document(0), std::make_pair(std::int64_t{0}, std::int64_t{2}));
    std::vector<std::int64_t> middle(1);
    file.read(2, 1, middle);
    EXPECT_EQ(middle, (Ids{4}));
  }
}

TEST_F(IndexedFileTest, ReadsEveryTypeOfToken) {
  const auto one = [&](std::uint8_t code, auto token) {
    std::string bin;
    put(bin, token);
    folder_.write("y.bin", bin);
    Index index;
    index.type = code;
    index.lengths = {1};
    index.pointers = {0};
    index.documents = {0, 1};
    folder_.write("y.idx", index.bytes());
    const IndexedFile file(folder_.file("y"));
    EXPECT_EQ(file.tokens(), 1);
    EXPECT_EQ(testing::sequence(file, 0), (Ids{static_cast<std::int64_t>(token)}));
    EXPECT_EQ(id_range(file).least, token);
    EXPECT_EQ(id_range(file).greatest, token);
    using Limits = std::numeric_limits<decltype(token)>;
    EXPECT_EQ(possible_ids(file.type()).least, static_cast<std::int64_t>(Limits::min()));
    EXPECT_EQ(possible_ids(file.type()).greatest, static_cast<std::int64_t>(Limits::max()));
  };
  one(1, std::uint8_t{255});
  one(2, std::int8_t{-1});
  one(3, std::int16_t{-300});
  one(4, std::int32_t{1 << 30});
  one(5, std::int64_t{1} << 60);
  one(8, std::uint16_t{65535});
}

Ids stream(const IndexedFile& file, std::int64_t from, std::size_t count) {
  Ids tokens(count);
  file.read_stream(from, tokens);
  return tokens;
}

TEST_F(IndexedFileTest, ReadsAllSequencesAsOneStream) {
  const IndexedFile file = open(small_index());
  EXPECT_EQ(file.stretches().size(), 1u);
  EXPECT_EQ(stream(file, 0, 5), (Ids{1, 2, 65535, 4, 5}));
  EXPECT_EQ(stream(file, 1, 2), (Ids{2, 65535}));
  EXPECT_EQ(stream(file, 5, 0), (Ids{}));
}

// Document end of every token of the stream.
Ids document_ends(const IndexedFile& file) {
  Ids ends;
  for (std::int64_t token = 0; token < file.tokens(); ++token) ends.push_back(file.document_end(token));
  return ends;
}

TEST_F(IndexedFileTest, FindsTheEndOfADocument) {
  EXPECT_EQ(document_ends(open(small_index())), (Ids{2, 2, 5, 5, 5}));
  Index index = small_index();
  index.documents = {0, 0, 1, 1, 2, 3, 3};  // some without sequences, one without tokens
  EXPECT_EQ(document_ends(open(index)), (Ids{2, 2, 5, 5, 5}));
  index.documents = {0, 3};
  EXPECT_EQ(document_ends(open(index)), (Ids{5, 5, 5, 5, 5}));
}

// Sequences without tokens may lie in the gaps.
TEST_F(IndexedFileTest, FindsTheEndOfADocumentAcrossGaps) {
  Index index;
  index.lengths = {0, 1, 0, 1, 0, 1, 0};
  index.pointers = {0, 2, 5, 6, 8, 8, 10};
  for (std::int64_t i = 1; i <= 7; ++i) index.documents.push_back(i);
  EXPECT_EQ(document_ends(open(index)), (Ids{1, 2, 3}));
  index.documents = {0, 2, 7};
  EXPECT_EQ(document_ends(open(index)), (Ids{1, 3, 3}));
}

TEST_F(IndexedFileTest, StreamSkipsUnusedBytes) {
  Index index;
  index.lengths = {1, 0, 1, 2, 1};
  index.pointers = {2, 4, 4, 9, 13};  // unaligned after an odd gap
  index.documents = {0, 5};
  std::string bin;
  for (const int token : {90, 1, 2, 91}) put(bin, static_cast<std::uint16_t>(token));
  bin += '\x5c';
  for (const int token : {3, 4, 5, 93}) put(bin, static_cast<std::uint16_t>(token));
  folder_.write("x.bin", bin);
  const IndexedFile file = open(index);
  EXPECT_EQ(file.stretches().size(), 2u);
  const Ids all = {1, 2, 3, 4, 5};
  for (std::size_t from = 0; from <= all.size(); ++from) {
    for (std::size_t end = from; end <= all.size(); ++end) {
      EXPECT_EQ(stream(file, static_cast<std::int64_t>(from), end - from),
                Ids(all.begin() + from, all.begin() + end));
    }
  }
  EXPECT_EQ(id_range(file).least, 1);
  EXPECT_EQ(id_range(file).greatest, 5);
}

TEST_F(IndexedFileTest, FindsTheRangeOfIdsOnAnyNumberOfThreads) {
  constexpr int kTokens = 5'000'000;  // some blocks of 4 MiB
  std::string bin(kTokens * sizeof(std::uint16_t), '\1');
  const auto set = [&](std::size_t at, std::uint16_t id) { std::memcpy(bin.data() + 2 * at, &id, 2); };
  set(3, 7);
  set(kTokens - 1, 65'000);
  folder_.write("y.bin", bin);
  Index index;
  index.lengths = {kTokens};
  index.pointers = {0};
  index.documents = {0, 1};
  folder_.write("y.idx", index.bytes());
  const IndexedFile file(folder_.file("y"));
  for (const int threads : {0, 1, 2, 9}) {
    EXPECT_EQ(id_range(file, threads).least, 7);
    EXPECT_EQ(id_range(file, threads).greatest, 65'000);
  }
}

// Seeds of the fuzz target indexed_file cover other headers, overlaps and overflows.
TEST_F(IndexedFileTest, RefusesOtherVersionsAndTypes) {
  Index index = small_index();
  index.version = 2;
  EXPECT_TRUE(has(refusal(index.bytes()), "has version 2; it must be 1"));
  index.version = 1;
  for (const std::uint8_t type : {0, 6, 7, 9, 255}) {
    index.type = type;
    EXPECT_TRUE(has(refusal(index.bytes()), "token type"));
  }
  EXPECT_TRUE(has(error_of([&] { IndexedFile(folder_.file("nowhere.idx")); }), "nowhere.idx"));
}

TEST_F(IndexedFileTest, RefusesEveryTruncation) {
  const std::string whole = small_index().bytes();
  ASSERT_EQ(refusal(whole), "");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(refusal(whole.substr(0, size)), "") << size;
  }
  EXPECT_TRUE(has(refusal(whole.substr(0, whole.size() - 1)), "truncated"));
  EXPECT_TRUE(has(refusal(whole + "x"), "1 bytes after its tables"));
  folder_.write("x.bin", "123456789");
  EXPECT_TRUE(has(refusal(whole), "x.bin' is truncated"));
}

}  // namespace
}  // namespace twobw::corpus
