#include "app/train/export.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "core/base/output_file.h"
#include "engine/checkpoint/translate.h"
#include "engine/weights/layout.h"

namespace twobw::train {

void save_model(const StageWeights& weights_of, const runtime::Setup& setup,
                const checkpoint::ModelFiles& files, const std::string& folder) {
  std::vector<checkpoint::NamedTensor> tensors;
  const PipelineShape& shape = setup.spec.shape;
  for (int stage = 0; stage < shape.stages; ++stage) {
    const at::Tensor all = weights_of(stage);
    const weights::Layout layout(setup.model.layers, shape.first_layer(stage), shape.last_layer(stage));
    for (const weights::Parameter& parameter : layout.parameters()) {
      if (!parameter.spec.tied_to.empty()) continue;
      const at::Tensor ours = all.narrow(0, parameter.offset, parameter.count).view(parameter.spec.shape);
      const auto stored = checkpoint::to_stored(setup.config.model, parameter.spec, ours);
      tensors.insert(tensors.end(), stored.begin(), stored.end());
    }
  }
  const std::string temporary = folder + ".partial";
  std::error_code ignored;
  std::filesystem::remove_all(temporary, ignored);
  try {
    checkpoint::write_model(temporary, tensors, files);
    replace_folder(temporary, folder);
  } catch (...) {
    std::filesystem::remove_all(temporary, ignored);
    throw;
  }
}

}  // namespace twobw::train
