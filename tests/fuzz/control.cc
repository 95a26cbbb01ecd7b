// Bytes of a connection between processes: the handshake, then frames.
#include "core/base/codec.h"
#include "engine/control/agreement.h"
#include "engine/control/protocol.h"
#include "tests/fuzz/target.h"

namespace twobw::fuzz {

void read_control_hello(std::string_view input) {
  const auto decoded = control::decode_hello(input);
  if (!decoded) return;  // incomplete
  const control::Hello& hello = decoded->hello;
  const bool known = hello.protocol == control::kProtocol && hello.token.size() >= control::kMinToken &&
                     hello.token.size() <= control::kMaxToken;
  if (known && control::encode(hello) != input.substr(0, decoded->bytes))
    fail("a handshake is encoded differently");
}

void read_control_frames(std::string_view input) {
  while (const auto decoded = control::decode_frame(input)) {
    const control::Frame& frame = decoded->frame;
    if (control::encode(frame) != input.substr(0, decoded->bytes)) fail("a frame is encoded differently");
    input.remove_prefix(decoded->bytes);
    if (frame.kind == control::Frame::Kind::Beat) control::decode_liveness(frame.body);
    if (frame.kind != control::Frame::Kind::Message || frame.topic != control::Topic::Mail) continue;
    const auto facts = from_bytes<control::Facts>(frame.body);
    if (to_bytes(facts) != frame.body) fail("facts are encoded differently");
    control::compare_facts({facts, {}});
  }
}

}  // namespace twobw::fuzz
