#include "app/train/interrupts.h"

#include <atomic>

namespace twobw::train {
namespace {

std::atomic<bool> interrupt_requested{false}, save_requested{false};

}  // namespace

Interrupts::Interrupts() {
  interrupt_requested = save_requested = false;
  struct sigaction action {};
  action.sa_handler = [](int) { interrupt_requested = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, &former_int_);
  sigaction(SIGTERM, &action, &former_term_);
  action.sa_handler = [](int) { save_requested = true; };
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, &former_user_);
}

Interrupts::~Interrupts() {
  sigaction(SIGINT, &former_int_, nullptr);
  sigaction(SIGTERM, &former_term_, nullptr);
  sigaction(SIGUSR1, &former_user_, nullptr);
}

bool Interrupts::stop_requested() const {
  return interrupt_requested;
}

bool Interrupts::take_save_request() {
  return save_requested.exchange(false);
}

}  // namespace twobw::train
