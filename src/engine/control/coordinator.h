// Rank 0: admits the other ranks, relays their messages, and decides when and why the run ends.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/control/protocol.h"
#include "engine/control/session.h"

namespace twobw::control {

class Coordinator : public Peer {
 public:
  struct Terms {
    std::string token, build;
  };
  // Ranks connect to the listener.
  Coordinator(Session& session, const Options& options, Listener listener, Terms terms);
  // Ranks 1, 2, ... are connected already.
  Coordinator(Session& session, const Options& options, std::vector<std::unique_ptr<Connection>> members);

  void post_local(Frame frame) override { handle(0, std::move(frame)); }
  std::vector<pollfd> polled() override;
  void serve(const std::vector<pollfd>& polled) override;
  Clock::time_point tick(Clock::time_point now) override;
  std::vector<Connection*> finish() override;

 private:
  struct Member {
    std::unique_ptr<Connection> connection;  // null: not yet joined, or gone
    Clock::time_point heard;
    bool left = false;
  };
  struct PendingPeer {
    std::unique_ptr<Connection> connection;
    Clock::time_point until;
    bool refused = false;  // the reason is sent; the peer may still read it
  };

  void handle(int from, Frame frame);
  void relay(int from, Frame frame);
  void send(int to, const Bytes& bytes);
  void send_to_members(const Frame& frame, int but = 0);
  void begin_if_complete();
  void leave(int rank);
  void lose(int rank);
  void end(const Failure& failure);
  void serve_member(int rank, short events);
  void beat();
  void check_arrivals(Clock::time_point now);

  void accept_pending();
  // Evicts the oldest unauthenticated connection; real ranks authenticate immediately. False: all pending
  // peers have authenticated.
  bool evict_oldest_pending();
  // False: the connection is closed, or has become a member's.
  bool serve_pending(PendingPeer& peer, short events);
  bool admit(PendingPeer& peer, const Hello& hello);
  // Why a peer with the token is refused; null if it is admitted.
  std::optional<std::string> objection(const Hello& hello, const Connection& connection) const;

  Session& session_;
  const Options options_;
  std::optional<Listener> listener_;
  const Terms terms_;
  std::vector<Member> members_;       // by rank; rank 0 has no connection
  std::vector<PendingPeer> pending_;  // in the order of their arrival
  Clock::time_point next_beat_, arrive_until_, accept_after_;
  bool begun_ = false;
};

}  // namespace twobw::control
