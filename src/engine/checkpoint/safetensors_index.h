// model.safetensors.index.json: which file of a folder holds which tensor. It is not trusted.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

namespace twobw::checkpoint {

// Names of files by names of tensors. Every file is a .safetensors of the same folder. Throws InputError, in
// which `path` names the index.
std::map<std::string, std::string> parse_index(std::string_view text, const std::string& path);

// Throws InputError unless every tensor is in the file that the index names, and in no other. `tensors`: what
// each of the files holds.
void check_index(const std::map<std::string, std::string>& index,
                 const std::map<std::string, std::set<std::string>>& tensors, const std::string& path);

}  // namespace twobw::checkpoint
