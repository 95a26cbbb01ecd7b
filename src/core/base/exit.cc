#include "core/base/exit.h"

#include <cstdio>
#include <cstdlib>
#include <iostream>

namespace twobw {

void leave(int exit_code) {
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
  std::_Exit(exit_code);
}

}  // namespace twobw
