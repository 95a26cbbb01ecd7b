#include "engine/data/stream.h"

#include <gtest/gtest.h>

#include <array>

namespace twobw::data {
namespace {

// Documents of 30, 1, 25, 2 and 13 tokens.
TEST(DocumentWindows, EndWhereDocumentsDo) {
  const DocumentWindows windows({30, 31, 56, 58, 71}, 10);
  EXPECT_EQ(windows.documents(), 4);
  std::vector<std::array<std::int64_t, 3>> found;
  for (std::int64_t i = 0; i < windows.count(); ++i) {
    const DocumentWindows::Window window = windows.window(i);
    found.push_back({window.begin, window.length, window.document});
  }
  const std::vector<std::array<std::int64_t, 3>> expected = {{0, 10, 0},  {10, 10, 0}, {20, 10, 0},
                                                             {31, 10, 1}, {41, 10, 1}, {51, 5, 1},
                                                             {56, 2, 2},  {58, 10, 3}, {68, 3, 3}};
  EXPECT_EQ(found, expected);
  EXPECT_EQ(windows.first(0), 0);
  EXPECT_EQ(windows.last(0), 3);
  EXPECT_EQ(windows.first(2), 6);
  EXPECT_EQ(windows.last(3), 9);
}

TEST(DocumentWindows, OfShortDocumentsThereAreNone) {
  EXPECT_EQ(DocumentWindows({1, 2, 3}, 4).count(), 0);
  EXPECT_EQ(DocumentWindows({1, 2, 3}, 4).documents(), 0);
  // A rest of one token is left out.
  EXPECT_EQ(DocumentWindows({5}, 4).count(), 1);
}

}  // namespace
}  // namespace twobw::data
