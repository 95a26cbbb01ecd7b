// twobw with one family more.
#include "app/cli/engine/commands.h"
#include "core/base/output.h"
#include "engine/models/model.h"
#include "gmlp.h"

int main(int argc, char** argv) {
  twobw::models::add_family({.name = "gmlp", .describe = gmlp::describe}, gmlp::forward_of);
  twobw::leave(twobw::cli::run_program(argc, argv, twobw::cli::kEngineCommands));
}
