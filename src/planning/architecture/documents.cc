#include "planning/architecture/documents.h"

#include "core/base/error.h"
#include "planning/architecture/heads.h"

namespace twobw::architecture {

void check_documents(const ModelConfig& config) {
  if (!config.reset_documents) return;
  if (tells_of_sequences(config.head)) {
    fail_input(
        "model.reset_documents is true; it must be false where model.head is {}, as a sequence is one "
        "document",
        name(config.head));
  }
  // Every document of a sequence would have angles of its own.
  if (config.rope_scaling == "dynamic")
    fail_input("model.reset_documents is true; it must be false where model.rope_scaling is dynamic");
}

}  // namespace twobw::architecture
