// twobw: reads the command line, runs one command, and turns failures into one sentence and an exit code.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/exit.h"
#include "base/text.h"
#include "cli/commands.h"

#ifndef TWOBW_VERSION
#define TWOBW_VERSION "(unversioned build)"
#endif

namespace twobw::cli {
namespace {

enum ExitCode { kDone = 0, kFailed = 1, kBadInput = 2 };

constexpr const char* kPurpose =
    "Trains transformers cut into pipeline stages, without a flush between updates and with never more than "
    "two versions of the weights (2BW).";

struct Example {
  const char* command;
  const char* line;
  const char* effect;
};

constexpr Example kExamples[] = {
    {"train", "twobw train configs/default.yaml train.updates=50", "train as the file says, but stop sooner"},
    {"verify", "twobw verify configs/verify.yaml", "compare a pipeline with the serial run, bit by bit"},
    {"profile", "twobw profile configs/default.yaml",
     "measure the layers on this machine, for plan --profile"},
    {"plan", "twobw plan configs/default.yaml --explain",
     "cut the model up for this machine, and say why so"},
    {"topology", "twobw topology --output cluster.yaml", "describe this machine, for plan --cluster"},
    {"schedule", "twobw schedule 2bw --stages 4", "draw what every stage does, and when"},
    {"simulate", "twobw simulate flush --stages 8 --step 2",
     "model how fast it runs, and what stages wait for"},
    {"generate", "twobw generate runs/default", "write text with a trained model"},
};

constexpr const char* kNotes = R"(
Settings are key=value; docs/config.md lists the keys. `twobw COMMAND --help` says more of a command.
Exit codes: 0 done, 1 a check or the run failed, 2 the input is wrong.)";

int complain(int code, std::string_view sentence) {
  std::fflush(stdout);
  fmt::print(stderr, "twobw: {}\n", sentence);
  return code;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

// Each command's help ends with its example, and the program's with all of them.
void add_examples(CLI::App& app) {
  std::string all = "Examples:\n";
  for (const Example& example : kExamples) {
    const std::string line = fmt::format("  {:<50}  {}\n", example.line, example.effect);
    app.get_subcommand(example.command)->footer("Example:\n" + line);
    all += line;
  }
  app.footer(all + kNotes);
}

// CLI11 reports a missing command, an unknown one and an unknown option alike, so the first word is
// looked at beforehand.
void check_first_word(const CLI::App& app, int argc, char** argv) {
  const std::vector<std::string> names = command_names(app);
  const std::string known = fmt::format("the commands are {}", fmt::join(names, ", "));
  if (argc < 2) fail_input("no command is given; {}", known);
  const std::string word = argv[1];
  if (word.starts_with("-")) {
    if (app.get_option_no_throw(word) == nullptr) {
      fail_input("unknown option '{}'; before a command there are --help and --version", word);
    }
  } else if (std::find(names.begin(), names.end(), word) == names.end()) {
    const std::string best = nearest(word, names);
    fail_input("unknown command '{}'; {}", word,
               best.empty() ? known : fmt::format("did you mean '{}'?", best));
  }
}

// What CLI11 says, on one line, and where to read on.
std::string parse_complaint(const CLI::App& app, const CLI::ParseError& error) {
  std::string text = error.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (text.size() > 1 && std::islower(text[1])) text[0] = static_cast<char>(std::tolower(text[0]));
  const auto chosen = app.get_subcommands();
  const std::string command = chosen.empty() ? "" : chosen[0]->get_name() + " ";
  return fmt::format("{}; `twobw {}--help` says what is allowed", text, command);
}

int run(int argc, char** argv) {
  CLI::App app{kPurpose, "twobw"};
  int exit_code = kDone;
  app.set_version_flag("--version", std::string("twobw " TWOBW_VERSION), "Print the version and exit");
  app.require_subcommand(1);
  add_train(app, exit_code);
  add_verify(app, exit_code);
  add_profile(app, exit_code);
  add_plan(app, exit_code);
  add_topology(app, exit_code);
  add_schedule(app, exit_code);
  add_simulate(app, exit_code);
  add_generate(app, exit_code);
  add_examples(app);
  try {
    check_first_word(app, argc, argv);
    app.parse(argc, argv);
    return exit_code;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return complain(kBadInput, parse_complaint(app, error));
  }
}

}  // namespace
}  // namespace twobw::cli

namespace {

int guarded_run(int argc, char** argv) {
  using namespace twobw;
  try {
    return cli::run(argc, argv);
  } catch (const InputError& error) {
    return cli::complain(cli::kBadInput, error.what());
  } catch (const RunError& error) {
    return cli::complain(cli::kFailed, error.what());
  } catch (const std::exception& error) {
    // LibTorch appends a stack trace from the second line on.
    const std::string_view what = error.what();
    return cli::complain(cli::kFailed, fmt::format("internal error: {}", what.substr(0, what.find('\n'))));
  }
}

}  // namespace

int main(int argc, char** argv) {
  twobw::leave(guarded_run(argc, argv));
}
