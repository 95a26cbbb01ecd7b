// The bytes of a control connection: a handshake, then frames of a fixed head and a body. Pure functions; all
// bytes are hostile until decoded.
//
// A rank that joins begins with a hello: its build, rank and the job's token. The token rejects port
// scanners, programs that use a wrong port, and processes of another job. Rank 0 answers no connection
// without it, and never sends it. It travels unencrypted, so it does not protect against anyone who can read
// the traffic between the hosts or listens in place of rank 0. Anyone who knows the job's id can compute a
// token that is derived from it (rendezvous.h).
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace twobw::control {

inline constexpr std::uint32_t kProtocol = 1;
inline constexpr std::size_t kMinToken = 16;
inline constexpr std::size_t kMaxToken = 256;
inline constexpr std::size_t kMaxHello = 2048;  // bytes of a hello
inline constexpr std::size_t kMaxBody = 64 << 20;
inline constexpr int kOthers = -1;  // as `to`: all ranks but the sender

// Why a run of several processes ends: one sentence, and whether the user's input is wrong.
struct Failure {
  template <std::convertible_to<std::string> Text>
  Failure(Text&& reason, bool wrong_input = false)  // NOLINT: a text alone is a failed run
      : reason(std::forward<Text>(reason)), wrong_input(wrong_input) {}

  // The first line of the error: LibTorch appends a stack trace.
  static Failure of(const std::exception& error) {
    const std::string what = error.what();
    return {what.substr(0, what.find('\n')), dynamic_cast<const InputError*>(&error) != nullptr};
  }

  // Throws an InputError or a RunError, so that the exit code is that of the process that failed.
  [[noreturn]] void raise() const {
    if (wrong_input) throw InputError(reason);
    throw RunError(reason);
  }

  std::string reason;
  bool wrong_input;
};

// Kinds of messages. Mail: outside of pipelines (mail.h); the others but Store: of a pipeline.
enum class Topic : std::uint8_t { Mail, Gate, Norms, Update, Evaluation, Store, Other };

struct Liveness {
  int rank;
  double silent_s;  // since the last heartbeat
  bool has_left;
};

struct Hello {
  std::uint32_t protocol = kProtocol;
  std::string token;
  // Decoded only for our own protocol.
  std::string build;
  int rank = 0;
  int size = 1;

  friend bool operator==(const Hello&, const Hello&) = default;
};

// Throws InputError for a token that is too short or too long, or a build id that is too long.
std::string encode(const Hello& hello);

struct DecodedHello {
  Hello hello;
  std::size_t bytes;  // consumed
};

// Null: more bytes must arrive. Throws InputError as soon as they cannot become a hello.
std::optional<DecodedHello> decode_hello(std::string_view bytes);

// Compares in constant time.
bool same_token(std::string_view given, std::string_view token);

struct Frame {
  enum class Kind : std::uint8_t {
    Accepted,    // rank 0 to a joining rank
    WrongInput,  // as Abort, if the user's input is wrong
    Begin,       // all ranks have joined
    Message,     // any rank to any
    Beat,        // a heartbeat; from rank 0 with the liveness of all ranks
    Abort,       // to rank 0: why; from rank 0: who and why, also to a rank that is refused
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
  std::size_t bytes;  // consumed
};

// The first frame of the bytes received so far; null: more must arrive. Throws InputError if no frame begins
// with them.
std::optional<DecodedFrame> decode_frame(std::string_view bytes);

// The frame that reports a failure, truncated if it is too long; and back, with `who` in front (null for
// another kind of frame).
Frame to_frame(const Failure& failure, int from);
std::optional<Failure> failure_in(const Frame& frame, const std::string& who = {});

// The body of a beat from rank 0, in the order of the ranks.
std::string encode_liveness(const std::vector<Liveness>& ranks);
std::vector<Liveness> decode_liveness(std::string_view body);

}  // namespace twobw::control
