#include "app/cli/environment.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/error.h"

namespace twobw::cli {

void open_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // open() takes the lowest free number, and those before it are open.
    if (fcntl(descriptor, F_GETFD) < 0) open("/dev/null", O_RDWR);
  }
}

void check_stack_limit() {
  constexpr rlim_t kLeast = 1 << 20;  // threads get as much; products of matrices need 512 KiB
  rlimit stack{};
  if (getrlimit(RLIMIT_STACK, &stack) != 0 || stack.rlim_cur >= kLeast) return;
  fail_input("the limit on the stack is {} KiB; it must be at least {} KiB: run `ulimit -s 8192` before",
             stack.rlim_cur / 1024, kLeast / 1024);
}

}  // namespace twobw::cli
