#include "app/train/branch.h"

#include <filesystem>

#include "engine/checkpoint/store.h"

namespace twobw::train {

void begin_branch(const Config& config, const ResumePoint& point, const RunDirectory& directory) {
  namespace fs = std::filesystem;
  const std::string run = resumed_run(config);
  if (config.model.is_imported()) directory.keep_source(run + "/from");
  std::error_code not_planned;
  fs::copy_file(run + "/profile.json", directory.path("profile.json"), not_planned);
  checkpoint::copy_to(checkpoint::store_of(config.run_dir), point.folder);
}

}  // namespace twobw::train
