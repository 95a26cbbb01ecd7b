#include "engine/control/handshake.h"

#include <algorithm>

#include "engine/control/protocol_bytes.h"

namespace twobw::control {
namespace {

// Fixed for all protocols: the magic, the protocol's number, the length of the rest, and the token first in
// the rest.
constexpr std::string_view kMagic("twobw-c\n");
constexpr std::size_t kHelloHead = kMagic.size() + 8;

}  // namespace

std::string encode(const Hello& hello) {
  if (hello.token.size() < kMinToken || hello.token.size() > kMaxToken)
    fail_input("the job's token has {} bytes; it must have from {} to {}", hello.token.size(), kMinToken,
               kMaxToken);
  ProtocolWriter rest;
  rest.text(hello.token);
  rest.text(hello.build);
  rest.u32(static_cast<std::uint32_t>(hello.rank));
  rest.u32(static_cast<std::uint32_t>(hello.size));
  const std::string body = rest.take();
  if (kHelloHead + body.size() > kMaxHello)
    fail_input("the name of the build has {} bytes, which are too many", hello.build.size());
  ProtocolWriter out;
  out.raw(kMagic);
  out.u32(hello.protocol);
  out.text(body);
  return out.take();
}

std::optional<DecodedHello> decode_hello(std::string_view bytes) {
  if (!kMagic.starts_with(bytes.substr(0, kMagic.size()))) fail_input("what came is no process of twobw");
  if (bytes.size() < kHelloHead) return std::nullopt;
  ProtocolReader in(bytes.substr(kMagic.size()));
  Hello hello{.protocol = in.u32()};
  const std::uint32_t length = in.u32();
  if (length > kMaxHello - kHelloHead) fail_input("a handshake announces {} bytes", length);
  if (in.left() < length) return std::nullopt;
  ProtocolReader rest(in.raw(length));
  hello.token = rest.text();
  if (hello.protocol == kProtocol) {
    hello.build = rest.text();
    hello.rank = static_cast<int>(rest.u32());
    hello.size = static_cast<int>(rest.u32());
    rest.end();
  }
  return DecodedHello{.hello = std::move(hello), .bytes = kHelloHead + length};
}

bool same_token(std::string_view given, std::string_view token) {
  unsigned differs = given.size() != token.size();
  for (std::size_t i = 0; i < token.size(); ++i) {
    const char other = i < given.size() ? given[i] : '\0';
    differs |= static_cast<unsigned char>(other) ^ static_cast<unsigned char>(token[i]);
  }
  return differs == 0;
}

}  // namespace twobw::control
