#include "engine/control/handshake.h"

#include <algorithm>

#include "core/base/codec.h"

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
  const std::string body = to_bytes(hello.token, hello.build, hello.rank, hello.size);
  if (kHelloHead + body.size() > kMaxHello)
    fail_input("the name of the build has {} bytes, which are too many", hello.build.size());
  return std::string(kMagic) + to_bytes(hello.protocol, body);
}

std::optional<DecodedHello> decode_hello(std::string_view bytes) {
  if (!kMagic.starts_with(bytes.substr(0, kMagic.size()))) fail_input("what came is no process of twobw");
  if (bytes.size() < kHelloHead) return std::nullopt;
  Decoder head(bytes.substr(kMagic.size()));
  Hello hello{.protocol = head.take<std::uint32_t>()};
  const auto length = head.take<std::uint32_t>();
  if (length > kMaxHello - kHelloHead) fail_input("a handshake announces {} bytes", length);
  if (head.rest().size() < length) return std::nullopt;
  Decoder rest(head.take_bytes(length));
  rest(hello.token);
  if (hello.protocol == kProtocol) {
    rest(hello.build, hello.rank, hello.size);
    rest.finish();
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
