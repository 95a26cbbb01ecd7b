// A rank other than 0: one connection, to rank 0.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/control/options.h"
#include "engine/control/party.h"
#include "engine/control/session.h"

namespace twobw::control {

class Member : public Party {
 public:
  // Rank 0 has accepted the connection.
  Member(Session& session, const Options& options, std::unique_ptr<Connection> center);

  void own(Frame frame) override;
  std::vector<pollfd> polled() override;
  void serve(const std::vector<pollfd>& polled) override;
  Clock::time_point tick(Clock::time_point now) override;
  std::vector<Connection*> finish() override;

 private:
  void handle(Frame frame);
  void learn(const std::vector<Life>& lives);
  void send(const Frame& frame);
  void end(const Failure& failure);

  Session& session_;
  const Options options_;
  std::unique_ptr<Connection> center_;  // none: it is over
  Clock::time_point heard_, next_beat_;
  // This rank's own, until rank 0 has said which stands.
  std::optional<Failure> failure_;
  Clock::time_point verdict_until_;
};

}  // namespace twobw::control
