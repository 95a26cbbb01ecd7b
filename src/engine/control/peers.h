// The roles of ranks in the star: rank 0 coordinates, the others are its clients.
#pragma once

#include <poll.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/control/control.h"
#include "engine/control/rendezvous.h"

namespace twobw::control {

// A rank's role in the star, on the control's thread: coordinator (rank 0) or client.
class Peer {
 public:
  Peer(Control& control, const Options& options) : control_(control), options_(options) {}
  virtual ~Peer() = default;
  // Handles a frame that this rank has posted.
  virtual void post_local(Frame frame) = 0;
  // Descriptors for poll(2).
  virtual std::vector<pollfd> polled() = 0;
  // Handles the events of the descriptors from polled(), in the same order.
  virtual void serve(const std::vector<pollfd>& polled) = 0;
  // Timed work, after all arrived bytes are read. Returns when it must be called again.
  virtual Clock::time_point tick(Clock::time_point now) = 0;
  // The last call: returns the open connections.
  virtual std::vector<Connection*> finish() = 0;

 protected:
  // Serves the events of poll(2) at the connection to `rank`: sends, receives, and handles all frames. False:
  // the connection is closed or broken.
  bool serve_frames(int rank, Connection& connection, short events, Clock::time_point& heard);

  Control& control_;
  const Options options_;

 private:
  virtual void handle(int from, Frame frame) = 0;
  virtual void end(const Failure& failure) = 0;
};

// Rank 0: admits the other ranks, relays their messages, and decides when and why the run ends.
class Coordinator : public Peer {
 public:
  // Ranks connect to the listener, with the token and the build of `rendezvous`.
  Coordinator(Control& control, const Options& options, Listener listener, const Rendezvous& rendezvous);
  // Ranks 1, 2, ... are connected already.
  Coordinator(Control& control, const Options& options, std::vector<std::unique_ptr<Connection>> members);

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

  void handle(int from, Frame frame) override;
  void relay(int from, Frame frame);
  void send(int to, const Bytes& bytes);
  void send_to_members(const Frame& frame, int but = 0);
  void begin_if_complete();
  void leave(int rank);
  void end(const Failure& failure) override;
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

  std::optional<Listener> listener_;
  const Rendezvous rendezvous_;
  std::vector<Member> members_;       // by rank; rank 0 has no connection
  std::vector<PendingPeer> pending_;  // in the order of their arrival
  Clock::time_point next_beat_, arrive_until_, accept_after_;
  bool begun_ = false;
};

// Connects a rank to rank 0, retrying until accepted: ranks start in any order, and rank 0 evicts a
// connection that a flood of others has kept from authenticating. Throws RunError with rank 0's reason for a
// refusal, or when the time is over.
std::unique_ptr<Connection> join(const Rendezvous& rendezvous, const Options& options);

// A rank other than 0: keeps one connection to rank 0.
class Client : public Peer {
 public:
  // Rank 0 has accepted the connection.
  Client(Control& control, const Options& options, std::unique_ptr<Connection> zero);

  void post_local(Frame frame) override;
  std::vector<pollfd> polled() override;
  void serve(const std::vector<pollfd>& polled) override;
  Clock::time_point tick(Clock::time_point now) override;
  std::vector<Connection*> finish() override;

 private:
  void handle(int from, Frame frame) override;
  void learn(const std::vector<Liveness>& lives);
  void send(const Frame& frame);
  void end(const Failure& failure) override;

  std::unique_ptr<Connection> zero_;  // null: closed
  Clock::time_point heard_, next_beat_;
  // This rank's own failure, until rank 0 has decided which one counts.
  std::optional<Failure> failure_;
  Clock::time_point verdict_until_;
};

}  // namespace twobw::control
