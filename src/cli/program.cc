#include "cli/program.h"

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
#include "base/text.h"
#include "cli/commands.h"
#include "cli/delegate.h"

#ifndef TWOBW_VERSION
#define TWOBW_VERSION "(unversioned build)"
#endif

namespace twobw::cli {
namespace {

enum ExitCode { kDone = 0, kFailed = 1, kBadInput = 2 };

constexpr const char* kPurpose =
    "Trains transformers cut into pipeline stages, without a flush between updates and with never more than "
    "two versions of the weights (2BW).";

constexpr const char* kNotes = R"(
Settings are key=value; docs/config.md lists the keys. `twobw COMMAND --help` says more of a command.
Exit codes: 0 done, 1 a check or the run failed, 2 the input is wrong.)";

int complain(int code, std::string_view sentence) {
  std::fflush(stdout);
  fmt::print(stderr, "twobw: {}\n", sentence);
  return code;
}

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const Command& command : commands()) names.emplace_back(command.name);
  return names;
}

// Each command's help ends with its example, and the program's with all of them.
void add_commands(CLI::App& app, int& exit_code) {
  std::string examples = "Examples:\n";
  for (const Command& command : commands()) {
    const std::string line = fmt::format("  {:<50}  {}\n", command.example, command.effect);
    examples += line;
    CLI::App* added = app.add_subcommand(command.name, command.purpose);
    added->footer("Example:\n" + line);
    if (command.add != nullptr) command.add(*added, exit_code);
  }
  app.footer(examples + kNotes);
}

// CLI11 reports a missing command, an unknown one and an unknown option alike, so the first word is
// looked at beforehand.
void check_first_word(const CLI::App& app, int argc, char** argv) {
  const std::vector<std::string> names = command_names();
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

// Null: none is named, or one that this program has.
const Command* elsewhere(int argc, char** argv) {
  char** const end = argv + argc;
  char** const word = std::find_if(argv + 1, end, [](const char* word) { return word[0] != '-'; });
  if (word == end) return nullptr;
  for (const Command& command : commands()) {
    if (command.add == nullptr && std::string_view(command.name) == *word) return &command;
  }
  return nullptr;
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

int run_command(int argc, char** argv) {
  CLI::App app{kPurpose, "twobw"};
  int exit_code = kDone;
  app.set_version_flag("--version", std::string("twobw " TWOBW_VERSION), "Print the version and exit");
  app.require_subcommand(1);
  add_commands(app, exit_code);
  try {
    check_first_word(app, argc, argv);
    if (const Command* command = elsewhere(argc, argv)) delegate(*command, argv);
    app.parse(argc, argv);
    return exit_code;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return complain(kBadInput, parse_complaint(app, error));
  }
}

}  // namespace

int run_program(int argc, char** argv) {
  try {
    return run_command(argc, argv);
  } catch (const InputError& error) {
    return complain(kBadInput, error.what());
  } catch (const RunError& error) {
    return complain(kFailed, error.what());
  } catch (const std::exception& error) {
    // LibTorch appends a stack trace from the second line on.
    const std::string_view what = error.what();
    return complain(kFailed, fmt::format("internal error: {}", what.substr(0, what.find('\n'))));
  }
}

}  // namespace twobw::cli
