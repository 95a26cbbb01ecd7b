// Norms that are on a GPU, on their way to other processes: a thread waits for them, so that no worker does.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/threads.h"
#include "engine/transport/group.h"

namespace twobw::runtime {

class NormsOutbox {
 public:
  using Send = std::function<void(std::int64_t update, int part, const std::vector<double>& values)>;

  // Both are called on its thread; `fail` where the norms could not be read.
  NormsOutbox(Send send, std::function<void(const std::string& reason)> fail);
  ~NormsOutbox();  // sends what is left
  NormsOutbox(const NormsOutbox&) = delete;
  NormsOutbox& operator=(const NormsOutbox&) = delete;

  // From any thread. They stay as they are until all stages have collected them.
  void put(std::int64_t update, int part, const transport::Norms& norms);

 private:
  struct Outgoing {
    std::int64_t update = 0;
    int part = 0;  // as of transport::NormExchange
    transport::Norms norms;
  };
  void run();

  Send send_;
  std::function<void(const std::string& reason)> fail_;
  Inbox<Outgoing> waiting_;
  std::thread thread_;
};

}  // namespace twobw::runtime
