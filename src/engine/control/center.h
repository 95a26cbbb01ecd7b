// Rank 0: lets the others in, relays what they say, and decides when and why the run ends.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/control/handshake.h"
#include "engine/control/options.h"
#include "engine/control/party.h"
#include "engine/control/session.h"

namespace twobw::control {

class Center : public Party {
 public:
  struct Terms {
    std::string token, build;
  };
  // Ranks come to the listener.
  Center(Session& session, const Options& options, Listener listener, Terms terms);
  // Ranks 1, 2, ... are there already.
  Center(Session& session, const Options& options, std::vector<std::unique_ptr<Connection>> members);

  void own(Frame frame) override { handle(0, std::move(frame)); }
  std::vector<pollfd> polled() override;
  void serve(const std::vector<pollfd>& polled) override;
  Clock::time_point tick(Clock::time_point now) override;
  std::vector<Connection*> finish() override;

 private:
  struct Peer {
    std::unique_ptr<Connection> connection;  // none: not yet there, or gone
    Clock::time_point heard;
    bool left = false;
  };
  struct Stranger {
    std::unique_ptr<Connection> connection;
    Clock::time_point until;
    bool refused = false;  // has been told why, and may still read it
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

  void accept_strangers();
  // Makes room for a newcomer: a rank says who it is at once, so whoever has waited longest is none. False:
  // all of them have said the token.
  bool drop_oldest_stranger();
  // False: the connection is over, or has become a member's.
  bool serve_stranger(Stranger& stranger, short events);
  bool admit(Stranger& stranger, const Hello& hello);
  // What is wrong with one that has the token; nothing: it is welcome.
  std::optional<std::string> objection(const Hello& hello, const Connection& connection) const;

  Session& session_;
  const Options options_;
  std::optional<Listener> listener_;
  const Terms terms_;
  std::vector<Peer> members_;        // by rank; that of rank 0 has no connection
  std::vector<Stranger> strangers_;  // in the order in which they came
  Clock::time_point next_beat_, arrive_until_, accept_after_;
  bool begun_ = false;
};

}  // namespace twobw::control
