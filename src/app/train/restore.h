// What a run takes from the checkpoint that it goes on from: the tensors of some stages, and where it begins.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "core/schedule/spec.h"
#include "engine/checkpoint/formats/manifest.h"
#include "engine/models/model.h"
#include "engine/runtime/snapshot.h"

namespace twobw::train {

// What these stages need of the checkpoint in `folder`; the layers of each are as config.pipeline has them.
// No other tensor is read. Throws InputError where one is damaged or missing.
std::shared_ptr<runtime::Restored> read_stages(const std::string& folder, const Config& config,
                                               const std::vector<int>& stages);

// Sets where the run begins. Where the checkpoint lacks what the first batch runs on besides the true
// weights, it begins on those.
void begin_at(const checkpoint::Manifest& manifest, const architecture::Model& layers, schedule::Spec& spec);

}  // namespace twobw::train
