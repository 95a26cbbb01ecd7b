// What goes over a connection once its rank is known: frames of a fixed head and a body. Pure functions of
// bytes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/control/control.h"

namespace twobw::control {

inline constexpr std::size_t kMaxBody = 64 << 20;
inline constexpr int kOthers = -1;  // as `to`: all ranks but the sender

struct Frame {
  enum class Kind : std::uint8_t {
    Accepted,    // rank 0 to another
    WrongInput,  // as Abort, where the reason is that the input is wrong
    Begin,       // all ranks are there
    Message,     // any rank to any
    Beat,        // a sign of life; from rank 0 with those of all ranks
    Abort,       // to rank 0: why; from rank 0: who and why, also to one that is not let in
    Left,        // to rank 0
    AllLeft,     // from rank 0
  } kind = Kind::Message;
  Topic topic = Topic::Other;
  int from = 0;
  int to = 0;
  std::string body;

  friend bool operator==(const Frame&, const Frame&) = default;
};

std::string encode(const Frame& frame);

struct DecodedFrame {
  Frame frame;
  std::size_t bytes;  // that it took
};

// The first frame of what has arrived; nothing: more must arrive. Throws InputError for what no frame begins
// with.
std::optional<DecodedFrame> decode_frame(std::string_view bytes);

// To tell a failure, cut where it is too long; what is told, with `who` before it; nothing: another frame.
Frame to_frame(const Failure& failure, int from);
std::optional<Failure> failure_in(const Frame& frame, const std::string& who = {});

// The body of a beat from rank 0: rank after rank.
std::string encode_lives(const std::vector<Life>& lives);
std::vector<Life> decode_lives(std::string_view body);

}  // namespace twobw::control
