#include "train/export.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "checkpoint/durable.h"
#include "checkpoint/translate.h"

namespace twobw::train {

void save_model(const runtime::Pipeline& pipeline, const runtime::Setup& setup,
                const checkpoint::ModelFiles& files, const std::string& folder) {
  std::vector<checkpoint::NamedTensor> tensors;
  for (int r = 0; r < setup.spec.shape.stages; ++r) {
    const runtime::Stage& stage = pipeline.stage(r);
    for (const weights::Parameter& parameter : stage.layout().parameters()) {
      if (!parameter.spec.tied_to.empty()) continue;
      const at::Tensor ours =
          stage.newest_weights().narrow(0, parameter.offset, parameter.count).view(parameter.spec.shape);
      const auto stored = checkpoint::to_stored(setup.config.model, parameter.spec, ours);
      tensors.insert(tensors.end(), stored.begin(), stored.end());
    }
  }
  const std::string temporary = folder + ".partial";
  std::error_code ignored;
  std::filesystem::remove_all(temporary, ignored);
  checkpoint::write_model(temporary, tensors, files);
  checkpoint::replace_folder(temporary, folder);
}

}  // namespace twobw::train
