// A checkpoint read back: all of it, or the tensors alone that somebody needs.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/checkpoint/manifest.h"

namespace twobw::checkpoint {

struct Loaded {
  Manifest manifest;
  // Memory of the files, which are read as it is used and must stay as they are for so long; not to be
  // written to.
  std::map<std::string, at::Tensor> model, state;
};

// By the names of tensors as they are stored.
struct Wanted {
  std::function<bool(const std::string&name)> model, state;
};

// Compares the checksums of the manifest, of all headers and of files without tensors, and of the tensors
// that are wanted; others are not read. Throws InputError that names the file, and the tensor in it.
Loaded load(const std::string& folder, const Wanted& wanted);
// All of it.
Loaded load(const std::string& folder);
// All that is wrong with it, one sentence each; empty: it is good.
std::vector<std::string> find_problems(const std::string& folder);

}  // namespace twobw::checkpoint
