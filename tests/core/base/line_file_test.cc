#include "core/base/line_file.h"

#include <gtest/gtest.h>

#include "tests/core/base/file_size_limit.h"
#include "tests/engine/checkpoint/testing.h"

namespace twobw {
namespace {

using testing_files::FileSizeLimit;
using testing_files::read_bytes;
using testing_files::TemporaryFolder;
using testing_files::write_bytes;

class LineFileTest : public ::testing::Test {
 protected:
  std::string path() const { return folder_.path("lines"); }
  std::string text() const { return read_bytes(path()); }
  std::string problem() const { return "'" + path() + "' cannot be written: File too large"; }

 private:
  const TemporaryFolder folder_;
};

TEST_F(LineFileTest, LinesWaitForRoomInOrder) {
  LineFile file(path(), /*appends=*/false);
  file.add("first");
  std::string during, after_room_for_two;
  {
    const FileSizeLimit limit(10);
    file.add("second");
    file.add("third");
    during = text();
    limit.set(15);
    file.add("fourth");
    after_room_for_two = text();
  }
  EXPECT_EQ(during, "first\n");  // and not "first\nseco"
  EXPECT_EQ(after_room_for_two, "first\nsecond\n");
  EXPECT_EQ(file.take_problem(), problem());
  EXPECT_EQ(file.take_problem(), "");
  file.add("fifth");
  EXPECT_EQ(text(), "first\nsecond\nthird\nfourth\nfifth\n");
  EXPECT_EQ(file.finish(), "");
}

TEST_F(LineFileTest, LinesBeyondItsMemoryAreCounted) {
  LineFile file(path(), /*appends=*/false, /*most_kept=*/8);
  {
    const FileSizeLimit limit(0);
    for (const char* const line : {"one", "two", "three", "four"}) file.add(line);
  }
  file.add("five");
  EXPECT_EQ(text(), "one\ntwo\nfive\n");
  EXPECT_EQ(file.finish(), "2 lines of '" + path() + "' are lost: File too large");
}

TEST_F(LineFileTest, WhatIsStillKeptAtTheEndIsLost) {
  LineFile file(path(), /*appends=*/false);
  std::string loss;
  {
    const FileSizeLimit limit(2);
    file.add("one");
    loss = file.finish();
  }
  EXPECT_EQ(loss, "1 line of '" + path() + "' is lost: File too large");
  EXPECT_EQ(file.finish(), "");
  EXPECT_EQ(text(), "");
}

TEST_F(LineFileTest, AHalfLineAtTheEndIsCutOff) {
  for (const std::string& half : {std::string(), std::string("{\"update\": 5"), std::string(5000, 'x'),
                                  std::string(4096, '\0'), "x" + std::string(7, '\0')}) {
    for (const std::string whole : {"", "one\ntwo\n"}) {
      write_bytes(path(), whole + half);
      LineFile(path(), /*appends=*/true).add("three");
      EXPECT_EQ(text(), whole + "three\n") << half.size();
    }
  }
}

}  // namespace
}  // namespace twobw
