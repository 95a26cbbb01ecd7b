#include "core/base/output.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <iostream>

namespace twobw {
namespace {

std::atomic<int> first_failure = 0;

// A closed terminal gives EIO, as a broken disk does.
bool nobody_reads(int error) {
  struct stat status {};
  const bool is_file = fstat(STDOUT_FILENO, &status) == 0 && S_ISREG(status.st_mode);
  return error == EPIPE || (error == EIO && !is_file);
}

void handle_failure(int error) {
  if (nobody_reads(error)) {
    [[maybe_unused]] const auto* const dropped = std::freopen("/dev/null", "w", stdout);
  } else {
    note_output_failure(error);
  }
}

}  // namespace

void print_at_once(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) < 0) return handle_failure(errno);
  flush_output();
}

void flush_output() {
  if (std::fflush(stdout) != 0) handle_failure(errno);
}

void note_output_failure(int error) {
  int none = 0;
  first_failure.compare_exchange_strong(none, error);
}

int output_failure() {
  flush_output();
  return first_failure;
}

void leave(int exit_code) {
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
  std::_Exit(exit_code);
}

}  // namespace twobw
