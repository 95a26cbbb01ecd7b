#include "train/resume.h"

#include <fmt/format.h>

#include <filesystem>
#include <limits>
#include <ranges>
#include <set>

#include "base/config_schema.h"
#include "base/error.h"
#include "checkpoint/store.h"

namespace twobw::train {
namespace {

// What the weights and the state are of. Whole sections, and single keys.
bool must_stay(const std::string& path) {
  static const std::set<std::string> sections = {"model", "data"};
  static const std::set<std::string> keys = {"train.seed",      "train.precision", "optimizer.name",
                                             "optimizer.betas", "optimizer.eps",   "optimizer.momentum",
                                             "optimizer.groups"};
  return sections.contains(section_of(path)) || keys.contains(path);
}

ResumePoint point_of(checkpoint::Manifest manifest, const std::string& folder) {
  ResumePoint point{.folder = folder, .manifest = std::move(manifest), .split = {}, .said = {}};
  const Json& layout = point.manifest.layout;
  if (layout.contains("split") && layout["split"].is_array())
    point.split = layout["split"].get<std::vector<int>>();
  if (layout.contains("replicas") && layout["replicas"].is_number_integer())
    point.replicas = layout["replicas"].get<int>();
  return point;
}

std::string warning_of(const std::string& problem) {
  return fmt::format("warning: {}; the checkpoint before it is taken", problem);
}

void check_goes_on(std::int64_t update, const Config& config, const std::string& folder) {
  if (update < config.train.updates) return;
  fail_input(
      "train.updates is {}, but the checkpoint '{}' has {} updates already; to resume it must be at least {}",
      config.train.updates, folder, update, update + 1);
}

// The newest whose update is below `limit`.
std::optional<ResumePoint> newest_below(std::int64_t limit, const Config& config,
                                        std::vector<std::string> said) {
  const std::string store = checkpoint::store_of(config.run_dir);
  const std::vector<checkpoint::Entry> entries = checkpoint::list(store);
  for (const checkpoint::Entry& entry : entries | std::views::reverse) {
    if (entry.update >= limit) continue;
    std::optional<ResumePoint> point;
    try {
      point = point_of(checkpoint::read_manifest(entry.folder), entry.folder);
      // Only a good one says that there is nothing to go on with.
      if (point->manifest.update >= config.train.updates) checkpoint::load(entry.folder);
    } catch (const InputError& error) {
      said.push_back(warning_of(error.what()));
      continue;
    }
    check_unchanged(config_from_text(point->manifest.config, entry.folder), config, entry.folder);
    check_goes_on(point->manifest.update, config, entry.folder);
    point->said = std::move(said);
    return point;
  }
  if (config.resume != "auto" || !said.empty()) {
    fail_input("resume is {}, but '{}' has no checkpoint that can be loaded{}", config.resume, store,
               said.empty() ? "" : "; " + said.front().substr(std::string("warning: ").size()));
  }
  return std::nullopt;
}

}  // namespace

Config continued(const Config& config) {
  Config result = config;
  if (config.resume != "none" && config.resume != "auto") result.run_dir = config.resume;
  return result;
}

void check_unchanged(const Config& saved, const Config& now, const std::string& folder) {
  for (const Key& key : schema()) {
    if (!must_stay(key.path) || key.write(saved) == key.write(now)) continue;
    fail_input(
        "{} is {}, but the checkpoint '{}' is of a run with {}; to resume it must be the same (optimizer.lr, "
        "train.updates, devices and what stands under pipeline may change)",
        key.path, key.write(now), folder, key.write(saved));
  }
}

std::optional<ResumePoint> find_resume_point(const Config& config) {
  if (config.resume == "none") return std::nullopt;
  if (config.resume != "auto" && !std::filesystem::is_directory(config.run_dir))
    fail_input("resume is '{}', which is not the folder of a run", config.resume);
  return newest_below(std::numeric_limits<std::int64_t>::max(), config, {});
}

std::string describe_change(const ResumePoint& point, const PipelineShape& now, int processes) {
  const auto layout = [](std::ptrdiff_t stages, int replicas) {
    return fmt::format("{} stage{} x {} replica{}", stages, stages == 1 ? "" : "s", replicas,
                       replicas == 1 ? "" : "s");
  };
  const std::string is = layout(now.stages, now.replicas),
                    was = layout(std::ssize(point.split), point.replicas);
  return fmt::format("planned again for {} process{}: {}, {}", processes, processes == 1 ? "" : "es", is,
                     is == was ? "as in the checkpoint"
                               : fmt::format("where the checkpoint was saved with {} x {}",
                                             point.split.size(), point.replicas));
}

ResumePoint find_point_before(const ResumePoint& point, const Config& config, const std::string& problem) {
  std::vector<std::string> said = point.said;
  said.push_back(warning_of(problem));
  return *newest_below(point.manifest.update, config, std::move(said));
}

}  // namespace twobw::train
