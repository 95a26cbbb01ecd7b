// twobw checkpoint: lists, verifies and compares the checkpoints of a run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "app/cli/arguments.h"
#include "app/cli/engine/commands.h"
#include "app/cli/json_output.h"
#include "core/base/config.h"
#include "core/base/config_schema.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "engine/checkpoint/store.h"

namespace twobw::cli {
namespace {

bool is_checkpoint(const std::string& path) {
  return std::filesystem::is_regular_file(path + "/" + checkpoint::kManifest);
}

// A single checkpoint, or all of a run's, oldest first.
std::vector<std::string> folders_of(const std::string& path) {
  if (is_checkpoint(path)) return {path};
  std::vector<std::string> folders;
  for (const checkpoint::Entry& entry : checkpoint::list(checkpoint::store_of(path)))
    folders.push_back(entry.folder);
  if (folders.empty()) fail_input("'{}' is neither a checkpoint nor the folder of a run that has one", path);
  return folders;
}

std::string newest_of(const std::string& path) {
  return folders_of(path).back();
}

double bytes_of(const checkpoint::Manifest& manifest) {
  double bytes = 0;
  for (const checkpoint::FileRecord& file : manifest.files) bytes += static_cast<double>(file.bytes);
  return bytes;
}

std::string loss_of(const checkpoint::Manifest& manifest) {
  return manifest.validation_loss ? fmt::format("validation loss {:.4f}", *manifest.validation_loss)
                                  : "not evaluated";
}

Json to_json(const std::string& folder, const checkpoint::Manifest& manifest) {
  return {{"folder", folder},
          {"update", manifest.update},
          {"bytes", bytes_of(manifest)},
          {"written", manifest.written},
          {"validation_loss", manifest.validation_loss ? Json(*manifest.validation_loss) : Json()},
          {"applied", manifest.applied},
          {"sequences", manifest.sequences},
          {"layout", manifest.layout}};
}

void list_checkpoints(const std::string& path, bool json) {
  Json all = Json::array();
  for (const std::string& folder : folders_of(path)) {
    try {
      const checkpoint::Manifest manifest = checkpoint::read_manifest(folder);
      all.push_back(to_json(folder, manifest));
      if (json) continue;
      fmt::print("{}  update {}, {}, {}, {}\n", folder, manifest.update, format_bytes(bytes_of(manifest)),
                 manifest.written, loss_of(manifest));
    } catch (const InputError& error) {
      all.push_back({{"folder", folder}, {"damaged", error.what()}});
      if (!json) fmt::print("{}  damaged: {}\n", folder, error.what());
    }
  }
  if (json) print_json(all);
}

// Whether all are good.
bool verify_checkpoints(const std::string& path, bool json) {
  bool good = true;
  Json all = Json::array();
  for (const std::string& folder : folders_of(path)) {
    const std::vector<std::string> problems = checkpoint::find_problems(folder);
    good = good && problems.empty();
    all.push_back({{"folder", folder}, {"good", problems.empty()}, {"problems", problems}});
    if (json) continue;
    fmt::print("{}: {}\n", folder, problems.empty() ? "good" : "DAMAGED");
    for (const std::string& problem : problems) fmt::print("  {}\n", problem);
  }
  if (json) print_json(all);
  return good;
}

void show_checkpoint(const std::string& path, bool json) {
  const std::string folder = newest_of(path);
  const checkpoint::Manifest manifest = checkpoint::read_manifest(folder);
  if (json) return print_json(to_json(folder, manifest));
  fmt::print("{}\n", folder);
  fmt::print("  updates     {}, {} of them applied\n", manifest.update, manifest.applied);
  fmt::print("  sequences   {}\n", manifest.sequences);
  fmt::print("  written     {}\n", manifest.written);
  fmt::print("  loss        {}\n", loss_of(manifest));
  fmt::print("  layout      {}\n", manifest.layout.dump());
  fmt::print("  next batch  {}\n",
             manifest.drained ? "on the true weights" : "as if the run had not stopped");
  for (const checkpoint::FileRecord& file : manifest.files) {
    std::map<std::string, int> kinds;  // tensors by buffer
    for (const auto& [name, sum] : file.tensors) {
      const std::size_t slash = name.find('/');
      ++kinds[slash == std::string::npos ? "weights" : name.substr(0, slash)];
    }
    fmt::print("  {}, {}:\n", file.name, format_bytes(static_cast<double>(file.bytes)));
    for (const auto& [kind, count] : kinds) fmt::print("    {:<10}  {} tensors\n", kind, count);
  }
}

Json settings_that_differ(const checkpoint::Manifest& a, const checkpoint::Manifest& b,
                          const std::string& name_a, const std::string& name_b) {
  Json settings = Json::array();
  const Config config_a = config_from_text(a.config, name_a), config_b = config_from_text(b.config, name_b);
  for (const Key& key : schema()) {
    const std::string value_a = key.write(config_a), value_b = key.write(config_b);
    if (value_a != value_b) settings.push_back({{"key", key.path}, {"first", value_a}, {"second", value_b}});
  }
  return settings;
}

using Tensors = std::map<std::string, at::Tensor>;

// Appends the tensors that differ.
void find_differences(const Tensors& a, const Tensors& b, Json& found) {
  for (const auto& [name, tensor] : a) {
    const auto other = b.find(name);
    if (other == b.end()) {
      found.push_back({{"name", name}, {"difference", "is in the first only"}});
    } else if (tensor.sizes() != other->second.sizes()) {
      found.push_back({{"name", name}, {"difference", "has another shape"}});
    } else if (!tensor.equal(other->second)) {
      const double most = (tensor - other->second).abs().max().item<double>();
      found.push_back(
          {{"name", name}, {"difference", fmt::format("differs by at most {:.3g}", most)}, {"most", most}});
    }
  }
  for (const auto& [name, tensor] : b) {
    if (!a.contains(name)) found.push_back({{"name", name}, {"difference", "is in the second only"}});
  }
}

// Whether they are the same.
bool diff_checkpoints(const std::string& first, const std::string& second, bool json) {
  const std::string name_a = newest_of(first), name_b = newest_of(second);
  const checkpoint::Loaded a = checkpoint::load(name_a), b = checkpoint::load(name_b);
  const Json settings = settings_that_differ(a.manifest, b.manifest, name_a, name_b);
  Json tensors = Json::array();
  find_differences(a.model, b.model, tensors);
  find_differences(a.state, b.state, tensors);
  const bool same =
      tensors.empty() && a.manifest.update == b.manifest.update && a.manifest.applied == b.manifest.applied &&
      a.manifest.last_scale == b.manifest.last_scale && a.manifest.scaling == b.manifest.scaling;
  if (json) {
    print_json({{"same", same},
                {"first", {{"folder", name_a}, {"update", a.manifest.update}}},
                {"second", {{"folder", name_b}, {"update", b.manifest.update}}},
                {"settings", settings},
                {"tensors", tensors}});
    return same;
  }
  fmt::print("{}: update {}\n{}: update {}\n", name_a, a.manifest.update, name_b, b.manifest.update);
  for (const Json& s : settings)
    fmt::print("  {}: {} and {}\n", s["key"].get<std::string>(), s["first"].get<std::string>(),
               s["second"].get<std::string>());
  for (const Json& t : tensors)
    fmt::print("  {} {}\n", t["name"].get<std::string>(), t["difference"].get<std::string>());
  fmt::print("{}\n", same ? "the same weights and state, bit for bit"
                          : fmt::format("{} tensors differ", tensors.size()));
  return same;
}

}  // namespace

void add_checkpoint(CLI::App& command, int& exit_code) {
  command.require_subcommand(1);
  struct Options {
    std::string first, second;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  const auto add = [&](const char* name, const char* purpose) {
    CLI::App* added = command.add_subcommand(name, purpose);
    added->add_option("path", options->first, "The folder of a run, or of a checkpoint")->required();
    return added;
  };
  CLI::App* const list = add("list", "Print the checkpoints of a run");
  CLI::App* const verify = add("verify", "Verify every checksum");
  CLI::App* const config = add("config", "Print the configuration saved in a checkpoint");
  CLI::App* const show = add("show", "Print the contents of a checkpoint");
  CLI::App* const diff = add("diff", "Compare two checkpoints, tensor by tensor");
  for (CLI::App* const app : {list, verify, config, show, diff}) add_json_flag(*app, options->json);
  list->callback([options] { list_checkpoints(options->first, options->json); });
  verify->callback(
      [options, &exit_code] { exit_code = verify_checkpoints(options->first, options->json) ? 0 : 1; });
  config->callback([options] {
    const std::string folder = newest_of(options->first), text = checkpoint::read_manifest(folder).config;
    print_result(options->json, to_json(config_from_text(text, folder)), text);
  });
  show->callback([options] { show_checkpoint(options->first, options->json); });
  diff->add_option("other", options->second, "The other run or checkpoint")->required();
  diff->callback([options, &exit_code] {
    exit_code = diff_checkpoints(options->first, options->second, options->json) ? 0 : 1;
  });
}

}  // namespace twobw::cli
