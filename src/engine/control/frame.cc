#include "engine/control/frame.h"

#include <algorithm>

#include "core/base/codec.h"

namespace twobw::control {
namespace {

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

std::string encode_lives(const std::vector<Life>& lives) {
  std::vector<LifeSign> signs;
  for (const Life& life : lives) {
    signs.push_back({.silent_ms = static_cast<std::uint32_t>(std::clamp(life.silent_s * 1e3, 0.0, 4e9)),
                     .has_left = life.has_left});
  }
  return to_bytes(signs);
}

std::vector<Life> decode_lives(std::string_view body) {
  std::vector<Life> lives;
  for (const LifeSign& sign : from_bytes<std::vector<LifeSign>>(body)) {
    lives.push_back({.rank = static_cast<int>(lives.size()),
                     .silent_s = sign.silent_ms / 1e3,
                     .has_left = sign.has_left});
  }
  return lives;
}

}  // namespace twobw::control
