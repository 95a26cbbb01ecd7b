// A control over connections: one thread that polls them all. Of TCP, but for those in memory.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "engine/control/control.h"
#include "engine/control/options.h"
#include "engine/control/party.h"
#include "engine/control/session.h"

namespace twobw::control {

class TcpControl : public Control {
 public:
  using MakeParty = std::function<std::unique_ptr<Party>(Session& session)>;
  TcpControl(int rank, int size, const Options& options, const MakeParty& make);
  // Says what is still to say. Without leave() or an abort before it the others take it for a death.
  ~TcpControl() override;

  int rank() const override { return session_.rank(); }
  int size() const override { return session_.size(); }
  void on(Topic topic, std::function<void(int from, std::string_view body)> handler) override;
  void on_abort(std::function<void(const Failure& failure)> handler) override;
  void start() override { session_.start(); }
  void send(int to, Topic topic, std::string body) override;
  void send_to_others(Topic topic, std::string body) override;
  void abort(const Failure& failure) override;
  std::vector<Life> lives() const override { return session_.lives(); }
  void leave() override;

  // Returns when all ranks are there; throws RunError.
  void wait_begun() { session_.wait_begun(); }

 private:
  void post(int to, Topic topic, std::string body);
  void run();

  const Options options_;
  Session session_;
  std::unique_ptr<Party> party_;
  std::thread thread_;
};

}  // namespace twobw::control
