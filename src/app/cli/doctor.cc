// twobw doctor: can this machine train, and what would make it faster or more capable?
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "app/cli/build_info.h"
#include "app/cli/engine_program.h"
#include "app/cli/json_output.h"
#include "app/cli/program.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/text_file.h"
#include "planning/host/cores.h"
#include "planning/host/machine.h"

namespace twobw::cli {
namespace {

namespace fs = std::filesystem;

enum class Verdict { Ok, Warn, Fail };  // Fail: training cannot work
constexpr const char* kVerdicts[] = {"ok", "warn", "FAIL"};

struct Line {
  const char* topic;
  std::string name;
  Verdict verdict = Verdict::Ok;
  std::string found;
  std::string remedy;  // empty if ok
};

Line judge(const char* topic, std::string name, bool good, std::string found, std::string remedy,
           Verdict otherwise = Verdict::Warn) {
  return {topic, std::move(name), good ? Verdict::Ok : otherwise, std::move(found),
          good ? "" : std::move(remedy)};
}

// Devices

Line cores() {
  const std::string processor = device::processor_name();
  return {"devices", "cores", Verdict::Ok,
          fmt::format("{}{}, {} of memory", device::available_cores().size(),
                      processor.empty() ? "" : " of " + processor, format_bytes(device::system_memory()))};
}

// NVIDIA's driver describes each GPU in a file.
Line gpus() {
  std::map<std::string, int> models;
  std::error_code none;
  for (const auto& gpu : fs::directory_iterator("/proc/driver/nvidia/gpus", none)) {
    std::ifstream file(gpu.path() / "information");
    std::string model = "GPU";
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("Model:")) model = line.substr(line.find_first_not_of(" \t", 6));
    }
    ++models[model];
  }
  std::string found;
  for (const auto& [model, count] : models)
    found += fmt::format("{}{} x {}", found.empty() ? "" : ", ", count, model);
  return judge(
      "devices", "GPUs", models.empty() || !kBuild.cuda.empty(), models.empty() ? "none" : found,
      "this build trains on cores alone: install the CUDA toolkit and a LibTorch for CUDA, then `make build "
      "TWOBW_CUDA=on`");
}

// Libraries

// Starts twobw-engine, which loads LibTorch.
Line libtorch() {
  const std::string remedy = "`make build` installs LibTorch and builds twobw-engine next to twobw";
  if (kBuild.libtorch.empty())
    return judge("libraries", "LibTorch", false, "not in this build", remedy, Verdict::Fail);
  fs::path engine;
  try {
    engine = choose_engine(fs::read_symlink("/proc/self/exe").parent_path());
  } catch (const InputError& error) {
    return judge("libraries", "LibTorch", false, error.what(), "`pip install 'twobw[train]'`", Verdict::Fail);
  }
  const std::string command = fmt::format("'{}' --version 2>&1", engine.string());
  std::string output;
  FILE* const pipe = popen(command.c_str(), "r");
  for (int c = 0; pipe != nullptr && (c = std::getc(pipe)) != EOF;) output.push_back(static_cast<char>(c));
  const bool good = pipe != nullptr && pclose(pipe) == 0;
  return judge("libraries", "LibTorch", good,
               good ? fmt::format("{} in {}", kBuild.libtorch, kBuild.libtorch_folder)
                    : "twobw-engine does not start: " + output.substr(0, output.find('\n')),
               remedy, Verdict::Fail);
}

struct Part {
  const char* name;
  std::string_view version;  // "ON" without one; empty: not in this build
  const char* use;
  const char* package;
};

std::vector<Line> parts() {
  const Part parts[] = {
      {"Gloo", kBuild.gloo, "several processes", "libgloo-dev"},
      {"NCCL", kBuild.nccl, "several processes with GPUs", "the LibTorch package for CUDA"},
      {"utf8proc", kBuild.utf8proc, "tokenizer.json and BPE files", "libutf8proc-dev"},
      {"sentencepiece", kBuild.sentencepiece, "tokenizers from .model files", "libsentencepiece-dev"},
      {"zlib", kBuild.zlib, "preparing .gz files", "zlib1g-dev"},
      {"zstd", kBuild.zstd, "preparing .zst files", "libzstd-dev"},
  };
  std::vector<Line> lines;
  for (const Part& part : parts) {
    const std::string version = part.version == "ON" ? "" : fmt::format("{}, ", part.version);
    lines.push_back(judge("libraries", part.name, !part.version.empty(),
                          part.version.empty() ? "not in this build" : version + "for " + part.use,
                          fmt::format("for {}: install {}, then `make build`", part.use, part.package)));
  }
  return lines;
}

// Launchers

// Empty if no folder of PATH, nor the folder of LibTorch's Python, has it.
std::string find_program(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::string folders = path == nullptr ? "" : path;
  folders += fmt::format(":{}/../../../../bin", kBuild.libtorch_folder);
  for (std::size_t begin = 0; begin <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', begin), folders.size());
    const fs::path program = fs::path(folders.substr(begin, end - begin)) / name;
    if (is_file(program)) return program.lexically_normal();
    begin = end + 1;
  }
  return {};
}

Line launcher(const char* name, const char* remedy) {
  const std::string program = find_program(name);
  return judge("launchers", name, !program.empty(), program.empty() ? "not found" : program, remedy);
}

// Limits

std::string shown_limit(rlim_t limit, bool in_bytes) {
  if (limit == RLIM_INFINITY) return "unlimited";
  return in_bytes ? format_bytes(static_cast<double>(limit)) : fmt::format("{}", limit);
}

// Warns below `enough`.
Line limit(const char* name, int resource, rlim_t enough, bool in_bytes, const char* remedy) {
  rlimit found{};
  getrlimit(resource, &found);
  return judge("limits", name, found.rlim_cur >= enough, shown_limit(found.rlim_cur, in_bytes), remedy);
}

Line locked_memory() {
  // Only adapters for InfiniBand need it.
  const bool needed = fs::exists("/sys/class/infiniband");
  return limit(
      "locked memory", RLIMIT_MEMLOCK, needed ? RLIM_INFINITY : 0, true,
      "InfiniBand registers buffers as locked memory: `ulimit -l unlimited`, of a container `--ulimit "
      "memlock=-1`");
}

Line shared_memory() {
  constexpr double kEnough = 1 << 30;
  struct statvfs room {};
  const bool found = statvfs("/dev/shm", &room) == 0;
  const double bytes = static_cast<double>(room.f_blocks) * static_cast<double>(room.f_frsize);
  return judge("limits", "shared memory", found && bytes >= kEnough,
               found ? format_bytes(bytes) : "no /dev/shm",
               "NCCL needs it between GPUs of one host: of a container `--shm-size=1g`");
}

std::vector<Line> examine() {
  std::vector<Line> lines = {cores(), gpus(), libtorch()};
  for (Line& line : parts()) lines.push_back(std::move(line));
  lines.push_back(launcher("torchrun", "comes with the Python package torch: scripts/install.sh"));
  lines.push_back(launcher("mpirun", "install openmpi-bin, if you start processes with it"));
  lines.push_back(launcher("srun", "install a Slurm client, if you start processes with it"));
  lines.push_back(locked_memory());
  lines.push_back(shared_memory());
  lines.push_back(
      limit("open files", RLIMIT_NOFILE, 1024, false, "`ulimit -n 4096`: every peer takes connections"));
  lines.push_back(limit("stack", RLIMIT_STACK, 8 << 20, true, "`ulimit -s 8192`: threads get as much"));
  return lines;
}

void print_lines(const std::vector<Line>& lines) {
  fmt::print("{}\n", describe(kBuild));
  const char* topic = "";
  for (const Line& line : lines) {
    if (std::string_view(topic) != line.topic) fmt::print("\n{}\n", line.topic);
    topic = line.topic;
    fmt::print("  {:<4}  {:<13}  {}\n", kVerdicts[static_cast<int>(line.verdict)], line.name, line.found);
    if (!line.remedy.empty()) fmt::print("        {:<13}  -> {}\n", "", line.remedy);
  }
}

Json to_json(const std::vector<Line>& lines) {
  Json json = {{"version", kBuild.program}, {"revision", kBuild.revision}};
  for (const Line& line : lines) {
    json["checks"].push_back({{"topic", line.topic},
                              {"name", line.name},
                              {"verdict", kVerdicts[static_cast<int>(line.verdict)]},
                              {"found", line.found},
                              {"remedy", line.remedy}});
  }
  return json;
}

int run(bool json) {
  const std::vector<Line> lines = examine();
  const auto count = [&](Verdict verdict) { return std::ranges::count(lines, verdict, &Line::verdict); };
  const bool works = count(Verdict::Fail) == 0;
  if (json) {
    print_json(to_json(lines));
  } else {
    print_lines(lines);
    fmt::print("\n{}; {} warnings\n", works ? "training works" : "training cannot work",
               count(Verdict::Warn));
  }
  return works ? 0 : 1;
}

}  // namespace

void add_doctor(CLI::App& command, int& exit_code) {
  auto json = std::make_shared<bool>(false);
  add_json_flag(command, *json);
  command.callback([json, &exit_code] { exit_code = run(*json); });
}

}  // namespace twobw::cli
