#include "text/corpus/indexed_writer.h"

#include <gtest/gtest.h>

#include "tests/text/corpus/testing.h"

namespace twobw::corpus {
namespace {

using testing::Folder;
using testing::has;
using testing::Ids;

void add(IndexedWriter& writer, const std::vector<std::uint16_t>& tokens) {
  writer.append(std::as_bytes(std::span(tokens)));
  writer.end_document();
}

TEST(IndexedWriter, WritesWhatTheReaderReads) {
  const Folder folder;
  IndexedWriter writer(folder.file("x"), TokenType::kUint16);
  add(writer, {1, 2, 3});
  add(writer, {});
  add(writer, {65535});
  EXPECT_FALSE(folder.has("x.bin"));
  writer.publish();
  const IndexedFile file(folder.file("x"));
  EXPECT_EQ(file.documents(), 3);
  EXPECT_EQ(testing::sequence(file, 0), (Ids{1, 2, 3}));
  EXPECT_EQ(file.length(1), 0);
  EXPECT_EQ(testing::sequence(file, 2), (Ids{65535}));
  testing::Index index;
  index.lengths = {3, 0, 1};
  index.pointers = {0, 6, 6};
  index.documents = {0, 1, 2, 3};
  EXPECT_EQ(folder.read("x.idx"), index.bytes());
  IndexedWriter::remove_partial(folder.file("x"));
  EXPECT_FALSE(folder.has("x.lengths.partial"));
}

TEST(IndexedWriter, ContinuesAfterAPosition) {
  const Folder folder;
  WritePosition position;
  {
    IndexedWriter writer(folder.file("x"), TokenType::kUint16);
    add(writer, {1, 2});
    position = writer.position();
    add(writer, {3});  // after the position, and lost
    writer.sync();
  }
  IndexedWriter writer(folder.file("x"), TokenType::kUint16, position);
  add(writer, {4, 5, 6});
  writer.publish();
  const IndexedFile file(folder.file("x"));
  EXPECT_EQ(file.documents(), 2);
  EXPECT_EQ(testing::sequence(file, 1), (Ids{4, 5, 6}));
}

TEST(IndexedWriter, RefusesFilesOfAnotherRun) {
  const Folder folder;
  IndexedWriter writer(folder.file("x"), TokenType::kUint16);
  EXPECT_TRUE(has(error_of([&] { IndexedWriter(folder.file("x"), TokenType::kUint16); }), "another run"));
  EXPECT_TRUE(
      has(error_of([&] { IndexedWriter(folder.file("no/x"), TokenType::kUint16); }), "cannot be written"));
}

}  // namespace
}  // namespace twobw::corpus
