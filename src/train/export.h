// The trained model as a folder.
#pragma once

#include <string>

#include "checkpoint/model_folder.h"
#include "runtime/pipeline.h"
#include "runtime/setup.h"

namespace twobw::train {

// The newest true weights of all stages, tied weights once, and `files` beside them. A former one is
// replaced.
void save_model(const runtime::Pipeline& pipeline, const runtime::Setup& setup,
                const checkpoint::ModelFiles& files, const std::string& folder);

}  // namespace twobw::train
