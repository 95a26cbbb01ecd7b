// The first words of every connection, from the rank that joins: what it is, and the job's token as proof.
//
// The token keeps out whoever comes by: scanners of ports, programs that mistake the port, processes of
// another job. Rank 0 answers nobody who has not said it, and never says it itself. It goes over the network
// as it is, so it keeps out nobody who can read the traffic between the hosts, or who listens in the place of
// rank 0; and one that is derived from the job's id (rendezvous.h) is no secret from anyone who can see that
// id.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace twobw::control {

inline constexpr std::uint32_t kProtocol = 1;
inline constexpr std::size_t kMinToken = 16;
inline constexpr std::size_t kMaxToken = 256;
inline constexpr std::size_t kMaxHello = 2048;  // all of it

struct Hello {
  std::uint32_t protocol = kProtocol;
  std::string token;
  // Of another protocol only what stands above is known.
  std::string build;
  int rank = 0;
  int size = 1;

  friend bool operator==(const Hello&, const Hello&) = default;
};

// Throws InputError for a token that is too short or too long, or a build's name that leaves no room.
std::string encode(const Hello& hello);

struct DecodedHello {
  Hello hello;
  std::size_t bytes;
};

// Nothing: more must arrive. Throws InputError as soon as it cannot become one.
std::optional<DecodedHello> decode_hello(std::string_view bytes);

// Takes as long wherever they differ.
bool same_token(std::string_view given, std::string_view token);

}  // namespace twobw::control
