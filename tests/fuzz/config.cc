// The configuration of a run. What is accepted reads back to the same from what is written of it.
#include "core/base/config.h"

#include "tests/fuzz/target.h"

namespace twobw::fuzz {

void read_config(std::string_view input) {
  const std::string written = to_yaml(config_from_text(std::string(input), "x.yaml"));
  if (to_yaml(config_from_text(written, "x.yaml, written again")) != written)
    fail("a configuration reads back to another");
}

}  // namespace twobw::fuzz
