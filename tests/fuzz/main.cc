// twobw_fuzz: runs hostile inputs through every reader of untrusted files, see docs/contributing/testing.md.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/text_file.h"
#include "tests/fuzz/corpus.h"
#include "tests/fuzz/workers.h"

namespace twobw::fuzz {
namespace {

struct Options {
  std::string target = "all";
  std::uint64_t inputs = 0;
  double seconds = 0;  // for all targets together
  std::uint64_t seed = 1;
  int jobs = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  std::string corpus = TWOBW_SOURCE_DIR "/tests/fuzz/corpus";
  std::string failures = ".";
  std::optional<std::uint64_t> number;
  std::string file;
};

std::vector<Target> chosen(const std::string& name) {
  return name == "all" ? targets() : std::vector<Target>{find_target(name)};
}

// One input, in this process, for a debugger.
int run_one(const Target& target, const std::string& input) {
  const Attempt made = attempt(target, input);
  if (!made.failure.empty()) {
    fmt::print("FAILED: {}\n", made.failure);
    return 1;
  }
  fmt::print("{}\n", made.accepted ? "accepted" : "refused: " + made.sentence);
  return 0;
}

// Writes a failing input and returns its path.
std::string keep_input(const Options& options, const Target& target, const std::string& input,
                       std::uint64_t number) {
  const std::string path =
      fmt::format("{}/fuzz-{}-{}-{}.input", options.failures, target.name, options.seed, number);
  write_text(path, input);
  return path;
}

bool run_target(const Options& options, const Target& target, double seconds) {
  const auto begin = std::chrono::steady_clock::now();
  const Corpus corpus = load_corpus(options.corpus, target);
  const std::uint64_t all = std::numeric_limits<std::uint64_t>::max() / 2;
  const std::uint64_t inputs =
      options.inputs > 0 ? std::max(options.inputs, std::uint64_t{corpus.texts.size()}) : all;
  const Done done = run_inputs(
      target, corpus, {.seed = options.seed, .inputs = inputs, .seconds = seconds, .jobs = options.jobs});
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
  fmt::print("{}: {} inputs in {:.1f} s, {} accepted{}\n", target.name, done.inputs, passed.count(),
             done.accepted, done.failures.empty() ? "" : ", FAILED");
  for (const Failure& failure : done.failures) {
    const std::string input = make_input(corpus, target, options.seed, failure.number);
    fmt::print("  seed {}, input {} (in {}): {}\n", options.seed, failure.number,
               keep_input(options, target, input, failure.number), failure.problem);
  }
  std::fflush(stdout);
  return done.failures.empty();
}

int run(const Options& options) {
  if (!options.file.empty()) return run_one(find_target(options.target), read_text("input", options.file));
  if (options.number) {
    const Target& target = find_target(options.target);
    return run_one(target,
                   make_input(load_corpus(options.corpus, target), target, options.seed, *options.number));
  }
  if (options.inputs == 0 && options.seconds <= 0) fail_input("--inputs or --seconds must limit the run");
  if (options.jobs < 1) fail_input("--jobs is {}; it must be at least 1", options.jobs);
  const std::vector<Target> all = chosen(options.target);
  bool good = true;
  for (const Target& target : all)
    good = run_target(options, target, options.seconds / static_cast<double>(all.size())) && good;
  return good ? 0 : 1;
}

int guarded(int argc, char** argv) {
  Options options;
  CLI::App app{"Runs mutations of known files through the readers of files, which must accept or refuse them",
               "twobw_fuzz"};
  app.add_option("--target", options.target, "A target, or all");
  app.add_option("--inputs", options.inputs, "Inputs per target");
  app.add_option("--seconds", options.seconds, "Time for all targets together");
  app.add_option("--seed", options.seed, "Seed of the mutations");
  app.add_option("--jobs", options.jobs, "Worker processes");
  app.add_option("--corpus", options.corpus, "Folder of the known files");
  app.add_option("--failures", options.failures, "Output folder for failing inputs");
  app.add_option("--number", options.number, "Run only this input, in this process");
  app.add_option("--file", options.file, "Run only this file, in this process");
  try {
    app.parse(argc, argv);
    return run(options);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const InputError& error) {
    fmt::print(stderr, "twobw_fuzz: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "twobw_fuzz: {}\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace twobw::fuzz

int main(int argc, char** argv) {
  return twobw::fuzz::guarded(argc, argv);
}
