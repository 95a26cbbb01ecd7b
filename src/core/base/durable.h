// Files that survive a power failure: contents are synced, then renamed to their name, then the folder is
// synced. All functions throw RunError with the system's reason.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/base/output_file.h"

namespace twobw {

void sync_file(const std::string& path);
void sync_folder(const std::string& path);

// Both in one folder. A folder that has the name already is an error.
void publish(const std::string& temporary, const std::string& path);

// Puts the folder `temporary` in the place of `path`; one that was there is removed.
void replace_folder(const std::string& temporary, const std::string& path);

// Replaces a small file: it has the old text or the new one.
void replace_text(const std::string& path, const std::string& text);

// Replaces a file of any size, which is PATH.partial until replace().
class Replacement {
 public:
  explicit Replacement(const std::string& path);
  ~Replacement();  // removes PATH.partial
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  void append(std::span<const std::byte> bytes) { file_->append(bytes); }
  void append(std::string_view text) { file_->append(text); }
  // Synced and renamed; the folder is the caller's to sync.
  void replace();

 private:
  std::string path_;
  std::optional<OutputFile> file_;  // none: it has its name
};

}  // namespace twobw
