#include "engine/checkpoint/model_folder.h"

#include <filesystem>
#include <system_error>

#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/base/text_file.h"

namespace twobw::checkpoint {
namespace fs = std::filesystem;

void write_model(const std::string& folder, const std::vector<NamedTensor>& tensors, const ModelFiles& files,
                 at::ScalarType stored, std::uint64_t limit) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail_run("'{}' cannot be made: {}", folder, error.message());
  save_sharded(folder, tensors, stored, limit);
  for (const auto& [name, text] : files) {
    write_text(folder + "/" + name, text);
    sync_file(folder + "/" + name);
  }
  sync_folder(folder);
}

}  // namespace twobw::checkpoint
