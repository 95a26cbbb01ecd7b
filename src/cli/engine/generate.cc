#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "device/cpu.h"
#include "train/export.h"

namespace twobw::cli {

void add_generate(CLI::App& command, int& exit_code) {
  struct Options {
    std::string run_dir, prompt;
    int length = 300;
    double temperature = 0.8;
    std::uint64_t seed = 0;
  };
  auto options = std::make_shared<Options>();
  command.add_option("run", options->run_dir, "The run directory")->required();
  command.add_option("--prompt", options->prompt, "Text to continue");
  command
      .add_option("--length", options->length,
                  "Tokens to generate, of which data.tokenizer says what they are")
      ->check(CLI::Range(1, 1 << 20));
  command.add_option("--temperature", options->temperature, "0: always the likeliest")
      ->check(CLI::NonNegativeNumber);
  command.add_option("--seed", options->seed, "Another seed, another text");
  command.callback([options, &exit_code] {
    device::initialize();
    const train::SavedModel model(options->run_dir);
    fmt::print("{}{}\n", options->prompt,
               model.generate(options->prompt, options->length, options->temperature, options->seed));
    exit_code = 0;
  });
}

}  // namespace twobw::cli
