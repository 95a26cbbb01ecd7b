// Signals as requests to a run.
#pragma once

#include <csignal>

namespace twobw::train {

// While it lives, the first Ctrl-C (or SIGTERM) asks the run to save and end; the second ends the program.
// SIGUSR1 asks it to save and go on. One at a time.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  bool stop_requested() const;
  bool take_save_request();  // once for each

 private:
  struct sigaction former_int_ {
  }, former_term_{}, former_user_{};
};

}  // namespace twobw::train
