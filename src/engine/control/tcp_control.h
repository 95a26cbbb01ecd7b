// A control over connections, which one thread polls. TCP sockets, or socket pairs in tests.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "engine/control/control.h"
#include "engine/control/session.h"

namespace twobw::control {

class TcpControl : public Control {
 public:
  using MakePeer = std::function<std::unique_ptr<Peer>(Session& session)>;
  TcpControl(int rank, int size, const Options& options, const MakePeer& make);
  // Sends queued frames. Without leave() or an abort before it the others report this rank as dead.
  ~TcpControl() override;

  int rank() const override { return session_.rank(); }
  int size() const override { return session_.size(); }
  void on(Topic topic, std::function<void(int, std::string_view)> handler) override {
    session_.on(topic, std::move(handler));
  }
  void on_abort(std::function<void(const Failure&)> handler) override {
    session_.on_abort(std::move(handler));
  }
  void start() override { session_.start(); }
  void send(int to, Topic topic, std::string body) override;
  void send_to_others(Topic topic, std::string body) override { post(kOthers, topic, std::move(body)); }
  void abort(const Failure& failure) override { session_.post(to_frame(failure, rank())); }
  std::vector<Liveness> liveness() const override { return session_.liveness(); }
  void leave() override;

  // Blocks until all ranks have joined; throws RunError.
  void wait_begun() { session_.wait_begun(); }

 private:
  void post(int to, Topic topic, std::string body);
  void run();

  const Options options_;
  Session session_;
  std::unique_ptr<Peer> peer_;
  std::thread thread_;
};

}  // namespace twobw::control
