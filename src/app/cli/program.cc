#include "app/cli/program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "app/cli/commands.h"
#include "app/cli/delegate.h"
#include "app/cli/environment.h"
#include "core/base/error.h"
#include "core/base/failures.h"
#include "core/base/output.h"
#include "core/base/text.h"
#include "core/launch/orphan.h"
#include "core/launch/world.h"

#ifndef TWOBW_VERSION
#define TWOBW_VERSION "(unversioned build)"
#endif

namespace twobw::cli {
namespace {

enum ExitCode { kDone = 0, kFailed = 1, kBadInput = 2 };

constexpr const char* kPurpose =
    "Trains transformers as a pipeline over several devices, without a flush between updates "
    "(PipeDream-2BW).";

constexpr const char* kNotes = R"(
Settings are key=value; docs/config.md lists the keys. `twobw COMMAND --help` lists the options of a command.
Exit codes: 0 done, 1 a check or the run failed, 2 the input is wrong.)";

// "process 3 on node7: ": of several processes, all but the first say who they are.
std::string prefix_of(const launch::World& world) {
  if (world.rank == 0) return {};
  char host[256] = {};
  if (gethostname(host, sizeof host - 1) != 0) host[0] = '?';
  return fmt::format("process {} on {}: ", world.rank, host);
}

int complain(int code, const std::string& prefix, std::string_view sentence) {
  flush_output();
  // Where nobody reads it any more, fmt::print would throw.
  std::fputs(fmt::format("twobw: {}{}\n", prefix, sentence).c_str(), stderr);
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
    CLI::App* added = app.add_subcommand(command.name, command.purpose)->group(command.group);
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
  if (argc < 2) throw CLI::CallForHelp();
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

// Null: none is named.
const Command* named_command(int argc, char** argv) {
  char** const end = argv + argc;
  char** const word = std::find_if(argv + 1, end, [](const char* word) { return word[0] != '-'; });
  if (word == end) return nullptr;
  for (const Command& command : commands()) {
    if (std::string_view(command.name) == *word) return &command;
  }
  return nullptr;
}

// What torchrun sets where the user has set nothing would leave every process one thread.
void forget_launchers_threads() {
  if (launch::omp_threads_are_torchruns(launch::process_environment())) unsetenv("OMP_NUM_THREADS");
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

int run_command(int argc, char** argv, const launch::World& world, const std::string& prefix) {
  CLI::App app{kPurpose, "twobw"};
  int exit_code = kDone;
  app.set_version_flag("--version", std::string("twobw " TWOBW_VERSION), "Print the version and exit");
  app.require_subcommand(1);
  add_commands(app, exit_code);
  try {
    check_first_word(app, argc, argv);
    const Command* command = named_command(argc, argv);
    if (command && world.size > 1 && !command->in_processes) {
      if (world.rank > 0) return kBadInput;  // the first one says it
      fail_input("`twobw {}` runs in one process; start it without a launcher", command->name);
    }
    // Several processes need what only twobw-engine has.
    const bool needs_engine =
        command && (command->add == nullptr || (world.size > 1 && add_train == nullptr));
    const bool ends_with_launcher = world.size > 1 && launch::launcher_stays(launch::process_environment());
    if (needs_engine) {
      if (ends_with_launcher) launch::remember_parent();
      forget_launchers_threads();
      delegate(*command, argv);
    }
    if (ends_with_launcher) launch::end_with_parent();
    app.parse(argc, argv);
    return exit_code;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      std::ostringstream text;
      app.exit(error, text);
      fmt::print("{}", text.str());
      return kDone;
    }
    return complain(kBadInput, prefix, parse_complaint(app, error));
  }
}

// Turns failures into one sentence.
int run_reporting(int argc, char** argv, std::string& prefix) {
  try {
    check_stack_limit();
    const launch::World world = launch::read_world(launch::process_environment());
    prefix = prefix_of(world);
    report_unhandled_exceptions(prefix);
    return run_command(argc, argv, world, prefix);
  } catch (const InputError& error) {
    return complain(kBadInput, prefix, error.what());
  } catch (const RunError& error) {
    return complain(kFailed, prefix, error.what());
  } catch (const std::exception& error) {
    const auto* system = dynamic_cast<const std::system_error*>(&error);
    if (system != nullptr && std::ferror(stdout) != 0) {  // by fmt::print
      note_output_failure(system->code().value());
      return kFailed;
    }
    if (const auto failure = system_failure(error))
      return complain(failure->wrong_input ? kBadInput : kFailed, prefix, failure->sentence);
    return complain(kFailed, prefix, "internal error: " + describe_failure(error));
  }
}

}  // namespace

int run_program(int argc, char** argv) {
  open_standard_descriptors();
  std::signal(SIGXFSZ, SIG_IGN);  // under `ulimit -f` a write fails with a reason
  std::string prefix;
  const int exit_code = run_reporting(argc, argv, prefix);
  const int failure = output_failure();
  if (failure == 0) return exit_code;
  return complain(exit_code == kDone ? kFailed : exit_code, prefix,
                  fmt::format("standard output cannot be written: {}", std::strerror(failure)));
}

}  // namespace twobw::cli
