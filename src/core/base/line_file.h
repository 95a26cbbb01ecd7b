// A file that grows by whole lines and survives a full disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace twobw {

// Lines that cannot be written are kept in memory and written in order, before the next one, as soon as the
// system allows it. The file never ends within a line. Not thread-safe.
class LineFile {
 public:
  static constexpr std::size_t kMostKept = std::size_t{16} << 20;  // bytes; further lines are lost

  // Appends to the file, whose last line is cut off if it has no end (the process was killed, the power
  // failed), or replaces it. Throws InputError.
  LineFile(std::string path, bool appends, std::size_t most_kept = kMostKept);
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  // `line` has no newline. Does not throw: take_problem() reports failures.
  void add(std::string_view line);

  // Once, after the first failure: "'PATH' cannot be written: REASON". Otherwise empty.
  std::string take_problem();

  // Writes the kept lines and syncs the file. "3 lines of 'PATH' are lost: REASON", empty if none are.
  std::string finish();

 private:
  void flush();
  std::size_t end_at_a_line(std::size_t written);

  std::string path_;
  std::size_t most_kept_;
  int file_ = -1;
  std::string kept_;  // whole lines; the first may lack its beginning, which is written
  std::int64_t lost_ = 0;
  std::string reason_;  // of the last failure
  bool has_said_ = false;
};

}  // namespace twobw
