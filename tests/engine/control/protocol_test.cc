#include "engine/control/protocol.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace twobw::control {
namespace {

const Frame kFrame = {
    .kind = Frame::Kind::Message, .topic = Topic::Norms, .from = 3, .to = kOthers, .body = "ab\0c"};

TEST(Frame, ThereAndBack) {
  for (const std::string& body : {std::string(), std::string("x"), std::string(100'000, '\xff')}) {
    Frame frame = kFrame;
    frame.body = body;
    const auto decoded = decode_frame(encode(frame) + "more");
    ASSERT_TRUE(decoded);
    EXPECT_TRUE(decoded->frame == frame);
    EXPECT_EQ(decoded->bytes, encode(frame).size());
  }
}

TEST(Frame, APartIsNotYetAFrame) {
  const std::string bytes = encode(kFrame);
  for (std::size_t count = 0; count < bytes.size(); ++count)
    EXPECT_FALSE(decode_frame(bytes.substr(0, count)));
}

TEST(Frame, WhatIsNoneIsRefusedByItsHead) {
  const std::string good = encode(kFrame).substr(0, 14);
  const auto changed = [&](std::size_t at, const std::string& bytes) {
    std::string bad = good;
    return bad.replace(at, bytes.size(), bytes);
  };
  EXPECT_THROW(decode_frame(changed(0, std::string("\x01\x00\x00\x04", 4))),
               InputError);  // 64 MiB and one byte
  EXPECT_FALSE(decode_frame(changed(0, std::string("\x00\x00\x00\x04", 4))));
  EXPECT_THROW(decode_frame(changed(4, "\x08")), InputError);
  EXPECT_THROW(decode_frame(changed(5, "\x0c")), InputError);
  EXPECT_THROW(decode_frame(changed(6, "\xff\xff\xff\xff")), InputError);
  EXPECT_THROW(decode_frame(changed(10, "\xfe\xff\xff\xff")), InputError);
}

TEST(Frame, Lives) {
  const std::vector<Liveness> lives =
      decode_liveness(encode_liveness({{0, 1.5, false}, {1, -3, true}, {2, 1e12, false}}));
  ASSERT_EQ(lives.size(), 3u);
  EXPECT_EQ(lives[0].silent_s, 1.5);
  EXPECT_EQ(lives[1].silent_s, 0);
  EXPECT_TRUE(lives[1].has_left);
  EXPECT_EQ(lives[2].rank, 2);
  EXPECT_EQ(lives[2].silent_s, 4e6);
  EXPECT_THROW(decode_liveness("abcd"), InputError);
}

const Hello kHello = {.token = "0123456789abcdef", .build = "0.1.0 g++", .rank = 3, .size = 4};

TEST(Handshake, ThereAndBack) {
  const std::string bytes = encode(kHello);
  const auto decoded = decode_hello(bytes + "frames");
  ASSERT_TRUE(decoded);
  EXPECT_TRUE(decoded->hello == kHello);
  EXPECT_EQ(decoded->bytes, bytes.size());
  for (std::size_t count = 0; count < bytes.size(); ++count)
    EXPECT_FALSE(decode_hello(bytes.substr(0, count)));
}

TEST(Handshake, OfAnotherProtocolTheTokenIsRead) {
  Hello hello = kHello;
  hello.protocol = 7;
  const auto decoded = decode_hello(encode(hello));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->hello.protocol, 7u);
  EXPECT_EQ(decoded->hello.token, kHello.token);
  EXPECT_EQ(decoded->hello.build, "");
}

TEST(Handshake, WhatIsNoneIsRefusedAtOnce) {
  EXPECT_THROW(decode_hello("G"), InputError);
  EXPECT_THROW(decode_hello("twobw-x"), InputError);
  std::string bytes = encode(kHello);
  bytes.replace(12, 4, std::string("\x00\x08\x00\x00", 4));  // the length of the rest
  EXPECT_THROW(decode_hello(bytes), InputError);
  bytes = encode(kHello);
  bytes.replace(16, 4, std::string("\xff\xff\xff\xff", 4));  // that of the token
  EXPECT_THROW(decode_hello(bytes), InputError);
  bytes = encode(kHello) + "x";
  ++bytes[12];  // a byte after the last number
  EXPECT_THROW(decode_hello(bytes), InputError);
}

TEST(Handshake, TokensAndBuildsHaveLimits) {
  Hello hello = kHello;
  hello.token = std::string(15, 'x');
  EXPECT_THROW(encode(hello), InputError);
  hello.token = std::string(257, 'x');
  EXPECT_THROW(encode(hello), InputError);
  hello = kHello;
  hello.build = std::string(kMaxHello, 'x');
  EXPECT_THROW(encode(hello), InputError);
}

TEST(Handshake, Tokens) {
  EXPECT_TRUE(same_token("secret", "secret"));
  EXPECT_FALSE(same_token("secreT", "secret"));
  EXPECT_FALSE(same_token("secre", "secret"));
  EXPECT_FALSE(same_token("secrets", "secret"));
  EXPECT_FALSE(same_token("", "secret"));
  EXPECT_FALSE(same_token(std::string(7, '\0'), std::string(6, '\0')));
}

}  // namespace
}  // namespace twobw::control
