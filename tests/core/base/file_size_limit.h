// Lets files grow to a few bytes only, as a full disk would: the write that crosses the limit is cut short.
#pragma once

#include <sys/resource.h>

#include <csignal>

namespace twobw::testing_files {

class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    former_signal_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &former_);
    set(bytes);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &former_);
    std::signal(SIGXFSZ, former_signal_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

  void set(rlim_t bytes) const {
    const rlimit limit{.rlim_cur = bytes, .rlim_max = former_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }

 private:
  rlimit former_{};
  void (*former_signal_)(int) = nullptr;
};

}  // namespace twobw::testing_files
