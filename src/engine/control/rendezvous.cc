#include "engine/control/rendezvous.h"

#include <random>

#include "core/base/error.h"
#include "core/base/random.h"
#include "engine/control/peers.h"

namespace twobw::control {
namespace {

void check(const Rendezvous& rendezvous) {
  TWOBW_ASSERT(rendezvous.size >= 1 && rendezvous.rank >= 0 && rendezvous.rank < rendezvous.size,
               "rank {} of {}", rendezvous.rank, rendezvous.size);
  encode(Hello{.token = rendezvous.token, .build = rendezvous.build});  // checks both
}

}  // namespace

std::unique_ptr<Control> connect(const Rendezvous& rendezvous, const Options& options, Listener listener) {
  check(rendezvous);
  TWOBW_ASSERT(rendezvous.rank == 0, "rank {} listens", rendezvous.rank);
  auto control = std::make_unique<Control>(0, rendezvous.size, options, [&](Control& self) {
    return std::make_unique<Coordinator>(self, options, std::move(listener), rendezvous);
  });
  control->wait_begun();
  return control;
}

std::unique_ptr<Control> connect(const Rendezvous& rendezvous, const Options& options) {
  check(rendezvous);
  if (rendezvous.size == 1) {
    return std::make_unique<Control>(0, 1, options, [&](Control& self) {
      return std::make_unique<Coordinator>(self, options, std::vector<std::unique_ptr<Connection>>());
    });
  }
  if (rendezvous.rank == 0) return connect(rendezvous, options, Listener(rendezvous.endpoint));
  std::unique_ptr<Connection> zero = join(rendezvous, options);
  auto control = std::make_unique<Control>(rendezvous.rank, rendezvous.size, options, [&](Control& self) {
    return std::make_unique<Client>(self, options, std::move(zero));
  });
  control->wait_begun();
  return control;
}

Rendezvous rendezvous_of(const launch::World& world, const std::optional<std::string>& token,
                         std::string build) {
  if (token && (token->size() < kMinToken || token->size() > kMaxToken))
    fail_input("TWOBW_JOB_TOKEN has {} bytes; it must have from {} to {}", token->size(), kMinToken,
               kMaxToken);
  const std::string address = world.on_one_host() ? kLoopback : world.master_address;
  return {.endpoint = {.address = address, .port = world.master_port},
          .token = token ? *token : derived_token(world.job),
          .rank = world.rank,
          .size = world.size,
          .build = std::move(build)};
}

std::string derived_token(const std::string& job) {
  const std::uint64_t seed = hash_text(job);
  return fmt::format("{:016x}{:016x}", random_key(seed, 1), random_key(seed, 2));
}

std::string random_token() {
  std::random_device device;
  std::string token;
  for (int i = 0; i < 8; ++i) token += fmt::format("{:08x}", device());
  return token;
}

}  // namespace twobw::control
