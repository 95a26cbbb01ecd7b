#include "base/exit.h"
#include "cli/program.h"

int main(int argc, char** argv) {
  twobw::leave(twobw::cli::run_program(argc, argv));
}
