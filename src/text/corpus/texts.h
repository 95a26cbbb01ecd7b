// The short texts of a file, all of them in memory.
#pragma once

#include <string>
#include <vector>

namespace twobw::corpus {

// Of tsv and jsonl, by the path's name, the field of every record (records.h); of any other file every line.
// Throws InputError.
std::vector<std::string> read_texts(const std::string& path, const std::string& field);

}  // namespace twobw::corpus
