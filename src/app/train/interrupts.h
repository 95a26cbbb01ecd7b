// Signals as requests to a run.
#pragma once

#include <csignal>

namespace twobw::train {

// While it exists, the first Ctrl-C (or SIGTERM) requests a checkpoint and the end of the run; the second
// ends the program. SIGUSR1 requests a checkpoint only. One instance at a time.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  bool stop_requested() const;
  bool take_save_request();  // true once for each signal

 private:
  struct sigaction former_int_ {
  }, former_term_{}, former_user_{};
};

}  // namespace twobw::train
