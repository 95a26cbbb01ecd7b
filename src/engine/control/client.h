// A rank other than 0: joins rank 0, and keeps one connection to it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/control/rendezvous.h"
#include "engine/control/session.h"

namespace twobw::control {

// Connects a rank to rank 0, retrying until accepted: ranks start in any order, and rank 0 evicts a
// connection that a flood of others has kept from authenticating. Throws RunError with rank 0's reason for a
// refusal, or when the time is over.
std::unique_ptr<Connection> join(const Rendezvous& rendezvous, const Options& options);

class Client : public Peer {
 public:
  // Rank 0 has accepted the connection.
  Client(Session& session, const Options& options, std::unique_ptr<Connection> zero);

  void post_local(Frame frame) override;
  std::vector<pollfd> polled() override;
  void serve(const std::vector<pollfd>& polled) override;
  Clock::time_point tick(Clock::time_point now) override;
  std::vector<Connection*> finish() override;

 private:
  void handle(Frame frame);
  void learn(const std::vector<Liveness>& lives);
  void send(const Frame& frame);
  void end(const Failure& failure);

  Session& session_;
  const Options options_;
  std::unique_ptr<Connection> zero_;  // null: closed
  Clock::time_point heard_, next_beat_;
  // This rank's own failure, until rank 0 has decided which one counts.
  std::optional<Failure> failure_;
  Clock::time_point verdict_until_;
};

}  // namespace twobw::control
