#pragma once

namespace twobw {

// Ends the program at once, output flushed, without the destructors of static objects. LibTorch's own
// (the operator registry takes itself apart) abort on some systems: seen with its x86_64 wheel on
// Ubuntu 24.04, after everything had been done and written.
[[noreturn]] void leave(int exit_code);

}  // namespace twobw
