#include "engine/control/frame.h"

#include <algorithm>

#include "engine/control/protocol_bytes.h"

namespace twobw::control {
namespace {

constexpr std::size_t kHead = 14;
constexpr std::size_t kLife = 5;

}  // namespace

std::string encode(const Frame& frame) {
  ProtocolWriter out;
  out.u32(static_cast<std::uint32_t>(frame.body.size()));
  out.u8(static_cast<std::uint8_t>(frame.kind));
  out.u8(static_cast<std::uint8_t>(frame.topic));
  out.u32(static_cast<std::uint32_t>(frame.from));
  out.u32(static_cast<std::uint32_t>(frame.to));
  out.raw(frame.body);
  return out.take();
}

std::optional<DecodedFrame> decode_frame(std::string_view bytes) {
  if (bytes.size() < kHead) return std::nullopt;
  ProtocolReader in(bytes);
  const std::uint32_t length = in.u32();
  const std::uint8_t kind = in.u8(), topic = in.u8();
  if (length > kMaxBody)
    fail_input("a control message announces {} bytes; at most {} are allowed", length, kMaxBody);
  if (kind > static_cast<std::uint8_t>(Frame::Kind::AllLeft))
    fail_input("a control message is of kind {}", kind);
  if (topic > static_cast<std::uint8_t>(Topic::Other)) fail_input("a control message is of topic {}", topic);
  const int from = static_cast<int>(in.u32()), to = static_cast<int>(in.u32());
  if (from < 0 || to < kOthers) fail_input("a control message is from process {} to process {}", from, to);
  if (in.left() < length) return std::nullopt;
  return DecodedFrame{.frame = {.kind = static_cast<Frame::Kind>(kind),
                                .topic = static_cast<Topic>(topic),
                                .from = from,
                                .to = to,
                                .body = std::string(in.raw(length))},
                      .bytes = kHead + length};
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
  ProtocolWriter out;
  for (const Life& life : lives) {
    out.u32(static_cast<std::uint32_t>(std::clamp(life.silent_s * 1e3, 0.0, 4e9)));
    out.u8(life.has_left);
  }
  return out.take();
}

std::vector<Life> decode_lives(std::string_view body) {
  if (body.size() % kLife != 0) fail_input("a control message has lives of {} bytes", body.size());
  ProtocolReader in(body);
  std::vector<Life> lives;
  while (in.left() > 0) {
    const double silent_s = in.u32() / 1e3;
    lives.push_back({.rank = static_cast<int>(lives.size()), .silent_s = silent_s, .has_left = in.u8() != 0});
  }
  return lives;
}

}  // namespace twobw::control
