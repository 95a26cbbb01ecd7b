// twobw with one family more.
#include "base/exit.h"
#include "cli/program.h"
#include "gmlp.h"
#include "models/model.h"

int main(int argc, char** argv) {
  twobw::models::add_family({.name = "gmlp", .describe = gmlp::describe}, gmlp::forward_of);
  twobw::leave(twobw::cli::run_program(argc, argv));
}
