#include "app/cli/delegate.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "app/cli/commands.h"
#include "core/base/error.h"

namespace twobw::cli {

void delegate(const Command& command, char** argv) {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  const std::filesystem::path engine = self.parent_path() / "twobw-engine";
  TWOBW_ASSERT(self != engine, "no file adds the command '{}'", command.name);
  // OpenMP reads it where a program begins.
  if (command.yields_cores && getenv("OMP_WAIT_POLICY") == nullptr)
    setenv("GOMP_SPINCOUNT", "1000", /*overwrite=*/0);
  execv(engine.c_str(), argv);
  fail_run("`twobw {}` needs '{}', which cannot be started: {}", command.name, engine.string(),
           std::strerror(errno));
}

}  // namespace twobw::cli
