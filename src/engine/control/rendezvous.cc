#include "engine/control/rendezvous.h"

#include <random>

#include "core/base/error.h"
#include "core/base/random.h"
#include "engine/control/center.h"
#include "engine/control/joining.h"
#include "engine/control/member.h"
#include "engine/control/tcp_control.h"

namespace twobw::control {
namespace {

void check_meeting(const Meeting& meeting) {
  TWOBW_ASSERT(meeting.size >= 1 && meeting.rank >= 0 && meeting.rank < meeting.size, "rank {} of {}",
               meeting.rank, meeting.size);
  // For its checks.
  encode(Hello{.token = meeting.token, .build = meeting.build, .rank = meeting.rank, .size = meeting.size});
}

}  // namespace

std::unique_ptr<Control> connect(const Meeting& meeting, const Options& options, Listener listener) {
  check_meeting(meeting);
  TWOBW_ASSERT(meeting.rank == 0, "rank {} listens", meeting.rank);
  auto control = std::make_unique<TcpControl>(0, meeting.size, options, [&](Session& session) {
    return std::make_unique<Center>(session, options, std::move(listener),
                                    Center::Terms{.token = meeting.token, .build = meeting.build});
  });
  control->wait_begun();
  return control;
}

std::unique_ptr<Control> connect(const Meeting& meeting, const Options& options) {
  check_meeting(meeting);
  if (meeting.size == 1) return std::move(controls_in_memory(1).front());
  if (meeting.rank == 0) return connect(meeting, options, Listener(meeting.endpoint));
  std::unique_ptr<Connection> center = join(meeting, options);
  auto control = std::make_unique<TcpControl>(meeting.rank, meeting.size, options, [&](Session& session) {
    return std::make_unique<Member>(session, options, std::move(center));
  });
  control->wait_begun();
  return control;
}

Meeting meeting_of(const launch::World& world, const std::optional<std::string>& token, std::string build) {
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
