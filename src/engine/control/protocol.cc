#include "engine/control/protocol.h"

#include <algorithm>

#include "core/base/codec.h"
#include "core/base/error.h"

namespace twobw::control {
namespace {

// Fixed for all protocols: the magic, the protocol's number, the length of the rest, and the token, first in
// the rest.
constexpr std::string_view kMagic("twobw-c\n");
constexpr std::size_t kHelloHead = kMagic.size() + 8;

constexpr std::size_t kHead = 14;

struct Head {
  std::uint32_t body_size = 0;
  Frame::Kind kind = Frame::Kind::Message;
  Topic topic = Topic::Other;
  int from = 0, to = 0;

  static void fields(auto& self, auto&& visit) {
    visit(self.body_size, self.kind, self.topic, self.from, self.to);
  }
};

struct LifeSign {
  std::uint32_t silent_ms = 0;
  bool has_left = false;

  static void fields(auto& self, auto&& visit) { visit(self.silent_ms, self.has_left); }
};

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
  if (!kMagic.starts_with(bytes.substr(0, kMagic.size()))) fail_input("the peer is not a process of twobw");
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

std::string encode(const Frame& frame) {
  return to_bytes(Head{.body_size = static_cast<std::uint32_t>(frame.body.size()),
                       .kind = frame.kind,
                       .topic = frame.topic,
                       .from = frame.from,
                       .to = frame.to}) +
         frame.body;
}

std::optional<DecodedFrame> decode_frame(std::string_view bytes) {
  if (bytes.size() < kHead) return std::nullopt;
  Decoder decoder(bytes);
  const auto head = decoder.take<Head>();
  if (head.body_size > kMaxBody)
    fail_input("a control message announces {} bytes; at most {} are allowed", head.body_size, kMaxBody);
  if (head.kind > Frame::Kind::AllLeft)
    fail_input("a control message is of kind {}", static_cast<int>(head.kind));
  if (head.topic > Topic::Other) fail_input("a control message is of topic {}", static_cast<int>(head.topic));
  if (head.from < 0 || head.to < kOthers)
    fail_input("a control message is from process {} to process {}", head.from, head.to);
  if (decoder.rest().size() < head.body_size) return std::nullopt;
  return DecodedFrame{.frame = {.kind = head.kind,
                                .topic = head.topic,
                                .from = head.from,
                                .to = head.to,
                                .body = std::string(decoder.take_bytes(head.body_size))},
                      .bytes = kHead + head.body_size};
}

Frame to_frame(const Failure& failure, int from) {
  constexpr std::size_t kMaxReason = 64 << 10;
  return {.kind = failure.wrong_input ? Frame::Kind::WrongInput : Frame::Kind::Abort,
          .from = from,
          .body = failure.reason.substr(0, kMaxReason)};
}

std::optional<Failure> failure_in(const Frame& frame, const std::string& who) {
  const bool wrong_input = frame.kind == Frame::Kind::WrongInput;
  if (!wrong_input && frame.kind != Frame::Kind::Abort) return std::nullopt;
  return Failure(who + frame.body, wrong_input);
}

std::string encode_liveness(const std::vector<Liveness>& ranks) {
  std::vector<LifeSign> signs;
  for (const Liveness& rank : ranks) {
    signs.push_back({.silent_ms = static_cast<std::uint32_t>(std::clamp(rank.silent_s * 1e3, 0.0, 4e9)),
                     .has_left = rank.has_left});
  }
  return to_bytes(signs);
}

std::vector<Liveness> decode_liveness(std::string_view body) {
  std::vector<Liveness> ranks;
  for (const LifeSign& sign : from_bytes<std::vector<LifeSign>>(body)) {
    ranks.push_back({.rank = static_cast<int>(ranks.size()),
                     .silent_s = sign.silent_ms / 1e3,
                     .has_left = sign.has_left});
  }
  return ranks;
}

}  // namespace twobw::control
