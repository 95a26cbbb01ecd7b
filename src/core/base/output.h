// Standard output, unbuffered and checked at the end of every command, and the end of the program.
#pragma once

#include <string>

namespace twobw {

// Prints and flushes. Never throws: a run is worth more than its output. If the pipe or terminal is closed,
// all further output is dropped; any other failure is kept for output_failure().
void print_at_once(const std::string& text);

// Records the errno of a failed write to standard output; the first one counts.
void note_output_failure(int error);

// Flushes standard output; failures as in print_at_once().
void flush_output();

// Flushes standard output. Returns the errno of the first failed write; 0 if all is written or has no reader.
int output_failure();

// Ends the program at once, output flushed, without destructors of static objects: those of LibTorch abort on
// some systems (seen with its x86_64 wheel on Ubuntu 24.04).
[[noreturn]] void leave(int exit_code);

}  // namespace twobw
