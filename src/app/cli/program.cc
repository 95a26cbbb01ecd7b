#include "app/cli/program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "app/cli/build_info.h"
#include "app/cli/engine_program.h"
#include "app/cli/json_output.h"
#include "core/base/error.h"
#include "core/base/failures.h"
#include "core/base/output.h"
#include "core/base/text.h"
#include "core/launch/orphan.h"
#include "core/launch/world.h"

namespace twobw::cli {
namespace {

enum ExitCode { kDone = 0, kFailed = 1, kBadInput = 2 };

constexpr const char* kPurpose =
    R"(Trains and fine-tunes transformers whose layers are split over several GPUs or CPU cores (pipeline
parallelism). No device waits at an optimizer step, as it does under GPipe or 1F1B; the loss stays that of
synchronous training.)";

constexpr const char* kNotes = R"(
Settings are key=value; docs/reference/configuration.md lists the keys. `twobw COMMAND --help` lists the options of a command.
Exit codes: 0 done, 1 a check or the run failed, 2 the input is wrong.)";

// "process 3 on node7: "; empty for the first process.
std::string prefix_of(const launch::World& world) {
  if (world.rank == 0) return {};
  char host[256] = {};
  if (gethostname(host, sizeof host - 1) != 0) host[0] = '?';
  return fmt::format("process {} on {}: ", world.rank, host);
}

// Opens /dev/null for standard input, output and error if they are closed. A file of the run would get
// their number otherwise, and printed lines.
void open_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // open() takes the lowest free number, and those before it are open.
    if (fcntl(descriptor, F_GETFD) < 0) open("/dev/null", O_RDWR);
  }
}

void check_stack_limit() {
  constexpr rlim_t kLeast = 1 << 20;  // threads get as much; products of matrices need 512 KiB
  rlimit stack{};
  if (getrlimit(RLIMIT_STACK, &stack) != 0 || stack.rlim_cur >= kLeast) return;
  fail_input("the limit on the stack is {} KiB; it must be at least {} KiB: run `ulimit -s 8192` before",
             stack.rlim_cur / 1024, kLeast / 1024);
}

// Null: none has this name.
const Command* find_command(std::string_view name) {
  const auto found =
      std::ranges::find(commands(), name, [](const Command& c) { return std::string_view(c.name); });
  return found == commands().end() ? nullptr : &*found;
}

// The command on the line, before CLI11 parses it: CLI11's messages do not distinguish a missing command, an
// unknown one and an unknown option. Null without one, for the help or the version of the program.
const Command* named_command(int argc, char** argv) {
  if (argc < 2) return nullptr;
  const std::string word = argv[1];
  if (word.starts_with("-")) {
    if (word != "-h" && word != "--help" && word != "--version")
      fail_input("unknown option '{}'; before a command there are --help and --version", word);
    char** const next = std::find_if(argv + 2, argv + argc, [](const char* text) { return text[0] != '-'; });
    return next == argv + argc ? nullptr : find_command(*next);
  }
  if (const Command* command = find_command(word)) return command;
  std::vector<std::string> names;
  for (const Command& command : commands()) names.emplace_back(command.name);
  const std::string best = nearest(word, names);
  fail_input("unknown command '{}'; {}", word,
             best.empty() ? fmt::format("the commands are {}", fmt::join(names, ", "))
                          : fmt::format("did you mean '{}'?", best));
}

// Each command's help ends with its example, and the program's with all of them.
void add_commands(CLI::App& app, std::span<const EngineCommand> engine, int& exit_code) {
  std::string examples = "Examples:\n";
  for (const Command& command : commands()) {
    const std::string line = fmt::format("  {:<50}  {}\n", command.example, command.effect);
    examples += line;
    CLI::App* added = app.add_subcommand(command.name, command.purpose)->group(command.group);
    added->footer("Example:\n" + line);
    const auto own = std::ranges::find(engine, command.name, &EngineCommand::name);
    const AddOptions add = own == engine.end() ? command.add : own->add;
    TWOBW_ASSERT(add != nullptr || engine.empty(), "twobw-engine lacks the command '{}'", command.name);
    if (add != nullptr) add(*added, exit_code);
  }
  app.footer(examples + kNotes);
}

// Unsets the OMP_NUM_THREADS=1 that torchrun sets if the user has set none.
void forget_launchers_threads() {
  if (launch::omp_threads_are_torchruns(launch::process_environment())) unsetenv("OMP_NUM_THREADS");
}

// Executes `twobw-engine`, from this program's folder, in this process and with the same arguments; signals
// and the exit code are then its own. Throws RunError if it cannot be started.
[[noreturn]] void become_engine(const Command& command, char** argv) {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  const std::filesystem::path engine = choose_engine(self.parent_path());
  // OpenMP reads it where a program begins.
  if (command.yields_cores && getenv("OMP_WAIT_POLICY") == nullptr)
    setenv("GOMP_SPINCOUNT", "1000", /*overwrite=*/0);
  execv(engine.c_str(), argv);
  fail_run("`twobw {}` needs '{}', which cannot be started: {}", command.name, engine.string(),
           std::strerror(errno));
}

// CLI11's message on one line, and the command that prints the help.
std::string parse_complaint(const CLI::App& app, const CLI::ParseError& error) {
  std::string text = error.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (text.size() > 1 && std::islower(text[1])) text[0] = static_cast<char>(std::tolower(text[0]));
  const auto chosen = app.get_subcommands();
  const std::string command = chosen.empty() ? "" : chosen[0]->get_name() + " ";
  return fmt::format("{}; `twobw {}--help` lists the options", text, command);
}

// The end of a command: its exit code and, if it failed, a sentence.
struct Ending {
  int code = kDone;
  std::string sentence;
};

Ending run_command(int argc, char** argv, std::span<const EngineCommand> engine, const launch::World& world) {
  const Command* const command = named_command(argc, argv);
  if (command && world.size > 1 && !command->in_processes) {
    if (world.rank > 0) return {kBadInput};  // rank 0 prints the sentence
    fail_input("`twobw {}` runs in one process; start it without a launcher", command->name);
  }
  const bool ends_with_launcher = world.size > 1 && launch::launcher_stays(launch::process_environment());
  if (command && engine.empty() && (command->add == nullptr || world.size > 1)) {
    if (ends_with_launcher) launch::remember_parent();
    forget_launchers_threads();
    become_engine(*command, argv);
  }
  if (ends_with_launcher) launch::end_with_parent(prefix_of(world));

  CLI::App app{kPurpose, "twobw"};
  Ending ending;
  app.set_version_flag("--version", describe(kBuild),
                       "Print the versions of the program, git, LibTorch, CUDA and NCCL");
  app.require_subcommand(1);
  add_commands(app, engine, ending.code);
  try {
    if (argc < 2) throw CLI::CallForHelp();
    app.parse(argc, argv);
    return ending;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return {kBadInput, parse_complaint(app, error)};
    std::ostringstream text;  // --help, --version
    app.exit(error, text);
    fmt::print("{}", text.str());
    return {};
  }
}

// Turns failures into one sentence. Sets `prefix`.
Ending run_reporting(int argc, char** argv, std::span<const EngineCommand> engine, std::string& prefix) {
  try {
    check_stack_limit();
    const launch::World world = launch::read_world(launch::process_environment());
    prefix = prefix_of(world);
    report_unhandled_exceptions(prefix);
    return run_command(argc, argv, engine, world);
  } catch (const InputError& error) {
    return {kBadInput, error.what()};
  } catch (const RunError& error) {
    return {kFailed, error.what()};
  } catch (const std::exception& error) {
    const auto* system = dynamic_cast<const std::system_error*>(&error);
    if (system != nullptr && std::ferror(stdout) != 0) {  // by fmt::print
      note_output_failure(system->code().value());
      return {kFailed};
    }
    if (const auto failure = system_failure(error))
      return {failure->wrong_input ? kBadInput : kFailed, failure->sentence};
    return {kFailed, "internal error: " + describe_failure(error)};
  }
}

}  // namespace

void print_error(std::string_view sentence) {
  flush_output();
  // fmt::print throws if the reader is gone.
  std::fputs(fmt::format("twobw: {}\n", sentence).c_str(), stderr);
}

int run_program(int argc, char** argv, std::span<const EngineCommand> engine) {
  open_standard_descriptors();
  std::signal(SIGXFSZ, SIG_IGN);  // under `ulimit -f` a write fails with a reason
  std::string prefix;
  const Ending ending = run_reporting(argc, argv, engine, prefix);
  if (!ending.sentence.empty()) {
    print_error(prefix + ending.sentence);
    const bool is_first = prefix.empty();
    if (is_first && asks_for_json(argc, argv)) print_at_once(error_line(ending.sentence));
  }
  const int failure = output_failure();
  if (failure == 0) return ending.code;
  print_error(fmt::format("{}standard output cannot be written: {}", prefix, std::strerror(failure)));
  return ending.code == kDone ? kFailed : ending.code;
}

}  // namespace twobw::cli
