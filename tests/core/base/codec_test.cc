#include "core/base/codec.h"

#include <gtest/gtest.h>

namespace twobw {
namespace {

struct Point {
  int x = 0;
  double y = 0;
  friend bool operator==(const Point&, const Point&) = default;
};

enum class Color : std::uint8_t { Red, Green };

struct Everything {
  bool flag = false;
  Color color = Color::Red;
  Point point;
  std::string text;
  std::optional<double> number, missing;
  std::vector<Point> points;
  std::vector<std::string> texts;
  std::vector<std::pair<std::string, std::optional<Point>>> pairs;

  static void fields(auto& self, auto&& visit) {
    visit(self.flag, self.color, self.point, self.text, self.number, self.missing, self.points, self.texts,
          self.pairs);
  }
  friend bool operator==(const Everything&, const Everything&) = default;
};

const Everything kSent = {.flag = true,
                          .color = Color::Green,
                          .point = {1, 2.5},
                          .text = std::string("a\0b", 3),
                          .number = 0.5,
                          .points = {{1, 1}, {2, 2}},
                          .texts = {"", std::string(100'000, 'x')},
                          .pairs = {{"a", Point{3, 4}}, {"b", std::nullopt}}};

TEST(Codec, ThereAndBack) {
  EXPECT_EQ(from_bytes<Everything>(to_bytes(kSent)), kSent);
  EXPECT_EQ((from_bytes<int, std::vector<Everything>>(to_bytes(7, std::vector{kSent, Everything{}}))),
            std::tuple(7, std::vector{kSent, Everything{}}));
}

TEST(Codec, BytesThatAreMissingOrTooManyAreRefused) {
  Everything sent = kSent;
  sent.texts.clear();
  const std::string bytes = to_bytes(sent);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THROW(from_bytes<Everything>(bytes.substr(0, size)), InputError) << size;
  EXPECT_THROW(from_bytes<Everything>(bytes + "x"), InputError);
}

TEST(Codec, HostileCountsAndTruthValuesAreRefused) {
  const std::string count = "\xff\xff\xff\xff";
  EXPECT_THROW(from_bytes<std::string>(count + "text"), InputError);
  EXPECT_THROW(from_bytes<std::vector<Point>>(count + "points"), InputError);
  EXPECT_THROW(from_bytes<std::vector<std::string>>(count + "texts"), InputError);
  EXPECT_THROW(from_bytes<bool>("\2"), InputError);
  EXPECT_THROW(from_bytes<std::optional<int>>("\2abcd"), InputError);
}

TEST(Codec, ADecoderLeavesTheRest) {
  const std::string bytes = to_bytes(5) + "body";
  Decoder decoder(bytes);
  EXPECT_EQ(decoder.take<int>(), 5);
  EXPECT_EQ(decoder.rest(), "body");
  EXPECT_EQ(decoder.take_bytes(2), "bo");
  EXPECT_THROW(decoder.take_bytes(3), InputError);
}

}  // namespace
}  // namespace twobw
