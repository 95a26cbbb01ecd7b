// The state in which a program is started.
#pragma once

namespace twobw::cli {

// Opens /dev/null for standard input, output and error where they are closed. A file of the run would get
// their number otherwise, and printed lines.
void open_standard_descriptors();

// Throws InputError if the limit on the stack is too small for the kernels of LibTorch.
void check_stack_limit();

}  // namespace twobw::cli
