#include "app/cli/engine/commands.h"
#include "core/base/output.h"

int main(int argc, char** argv) {
  twobw::leave(twobw::cli::run_program(argc, argv, twobw::cli::kEngineCommands));
}
