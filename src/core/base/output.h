// Standard output: written at once by a run, and checked at the end of every command.
#pragma once

#include <string>

namespace twobw {

// Never throws: a run is worth more than its lines. Where nobody reads them, because the pipe or the terminal
// is gone, all further output is dropped. Any other failure is kept for output_failure().
void print_at_once(const std::string& text);

// Keeps the errno of a write to standard output that failed; the first one counts.
void note_output_failure(int error);

// Flushes standard output; failures as in print_at_once().
void flush_output();

// Flushes standard output. The errno of the first write that failed; 0: everything is written, or nobody
// reads it.
int output_failure();

}  // namespace twobw
