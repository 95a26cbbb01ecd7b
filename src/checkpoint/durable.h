// Files that are still there after the power fails: what is written is synced, then renamed to its name, then
// the folder is synced. All throw RunError with the system's reason.
#pragma once

#include <string>

namespace twobw::checkpoint {

void sync_file(const std::string& path);
void sync_folder(const std::string& path);

// Both in one folder. A folder that has the name already is an error.
void publish(const std::string& temporary, const std::string& path);

// Puts the folder `temporary` in the place of `path`; one that was there is removed.
void replace_folder(const std::string& temporary, const std::string& path);

// Replaces a small file: it has the old text or the new one.
void replace_text(const std::string& path, const std::string& text);

}  // namespace twobw::checkpoint
