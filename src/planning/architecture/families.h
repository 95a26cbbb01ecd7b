// The model families. Every family that ships stands in the one list below, by its name: FAMILY is declared
// in architecture/ as `Model describe_FAMILY(const ModelConfig&)` and in models/ as its forwards,
// `forward_of_FAMILY`. A new family is a file in each of the two folders and a name in the list.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "planning/architecture/layer.h"

#define TWOBW_FAMILIES(FAMILY) FAMILY(gpt) FAMILY(llama) FAMILY(bert)

namespace twobw::architecture {

struct Family {
  std::string name;  // model.family
  std::function<Model(const ModelConfig&)> describe;
};

const std::vector<Family>& families();

// A family of the caller's own, before anything is built of it; a program that trains it adds it by
// engine/models/model.h, which does this too.
void add_family(Family family);

// By model.family. Throws InputError for an unknown one, naming the known ones.
Model model_of(const ModelConfig& config);

}  // namespace twobw::architecture
