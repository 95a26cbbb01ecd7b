// What Gloo's processes find each other by, over the control between them, so that no further port is open.
//
// A value that is set is told to all and kept by all; whoever asks for it waits where it is.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <memory>
#include <string>
#include <vector>

#include "engine/control/control.h"

namespace twobw::rendezvous {

class ControlStore final : public c10d::Store {
 public:
  // Before control.start(): takes Topic::Store. The control outlives all that is set.
  ControlStore(control::Control& control, std::chrono::milliseconds timeout);

  c10::intrusive_ptr<Store> clone() override;
  using Store::set;
  // A key is set once, by one process.
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override;
  // All that wait throw RunError: with the reason where the run is aborted, with the keys that are missing
  // when the time is over.
  std::vector<std::uint8_t> get(const std::string& key) override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override;
  bool check(const std::vector<std::string>& keys) override;

  // RunError: Gloo asks for none of these.
  std::int64_t add(const std::string& key, std::int64_t value) override;
  bool deleteKey(const std::string& key) override;
  std::int64_t getNumKeys() override;

 private:
  struct Values;
  ControlStore(control::Control& control, std::chrono::milliseconds timeout, std::shared_ptr<Values> values);

  control::Control& control_;
  std::shared_ptr<Values> values_;
};

}  // namespace twobw::rendezvous
