#include "core/base/config.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "core/base/config_schema.h"
#include "core/base/config_values.h"
#include "core/base/error.h"
#include "core/base/text_file.h"

namespace twobw {
namespace {

// Place and spelling of a setting, for checks that run after all overrides.
struct Origin {
  std::string where;  // " at x.yaml:3", " in override 'a.b=c'", or empty
  std::string text;
};
using Origins = std::map<std::string, Origin>;

[[noreturn]] void refuse(const std::string& path, const Origin& origin, const Complaint& complaint) {
  const std::string value = origin.text == "null" ? "empty" : shown(origin.text);
  fail_input("{} is {}{}; it must {}", path, value, origin.where, complaint);
}

void check_all(const Config& config, const Origins& origins) {
  for (const Key& key : schema()) {
    const Complaint complaint = key.check(config);
    if (complaint.empty()) continue;
    const auto origin = origins.find(key.path);
    refuse(key.path, origin == origins.end() ? Origin{"", key.write(config)} : origin->second, complaint);
  }
}

// A source of settings: the file, or one override. Later sources win over earlier ones.
class Source {
 public:
  // `file` is empty for an override, whose every key is at `where`.
  Source(Config& config, Origins& origins, std::string file, std::string where = "")
      : config_(config), origins_(origins), file_(std::move(file)), where_(std::move(where)) {}

  void read_map(const std::string& prefix, const YAML::Node& map) {
    for (const auto& entry : map) {
      const std::string path = prefix + describe(entry.first);
      const std::string where = place_of(entry.first);
      const auto [first, is_new] = seen_.emplace(path, where);
      if (!is_new)
        fail_input("{} is given twice,{} and{}; it must be given once", path, first->second, where);
      read(path, entry.second, where);
    }
  }

  void read(const std::string& path, const YAML::Node& node, const std::string& where) {
    const Origin origin{where, describe(node)};
    if (const Key* key = find_key(path)) {
      const Complaint complaint = key->read(node, config_);
      if (!complaint.empty()) refuse(path, origin, complaint);
      origins_[path] = origin;
    } else if (!is_section(path)) {
      fail_input("unknown key '{}'{}; {}", path, where, advice_for(path));
    } else if (node.IsMap()) {
      read_map(path + ".", node);
    } else if (!node.IsNull() || file_.empty()) {  // a section may stand empty in a file
      refuse(path, origin, "be a section of keys, such as " + first_key_of(path));
    }
  }

 private:
  std::string place_of(const YAML::Node& node) const {
    return file_.empty() ? where_ : fmt::format(" at {}:{}", file_, node.Mark().line + 1);
  }

  static std::string first_key_of(const std::string& section) {
    for (const Key& key : schema()) {
      if (section_of(key.path) == section) return key.path;
    }
    return section;
  }

  Config& config_;
  Origins& origins_;
  std::string file_;
  std::string where_;
  std::map<std::string, std::string> seen_;
};

constexpr const char* kEndMark = "# end of the configuration";

// The line of a section in the output of to_yaml().
std::string heading_of(const Section& section) {
  return fmt::format("{}:  # {}\n", section.name, section.meaning);
}

// The end mark, or the whole line of the last key: people edit the file, and some files have no mark.
bool has_end(const std::string& text) {
  const std::size_t last_key = text.find("\n" + schema().back().path + ":");
  return text.find(std::string("\n") + kEndMark) != std::string::npos ||
         (last_key != std::string::npos && text.find('\n', last_key + 1) != std::string::npos);
}

[[noreturn]] void refuse_cut(const std::string& path) {
  fail_input(
      "'{}' is cut: its last line, '{}', is missing; restore the file (twobw checkpoint config RUN prints "
      "the copy in the newest checkpoint), or add that line if nothing else is missing",
      path, kEndMark);
}

void read_document(const std::string& text, const std::string& path, Config& config, Origins& origins) {
  if (text.find(heading_of(sections().front())) != std::string::npos && !has_end(text)) refuse_cut(path);
  const YAML::Node root = parse_yaml(text, path, true);
  if (root.IsMap()) {
    Source(config, origins, path).read_map("", root);
  } else if (!root.IsNull()) {
    fail_input("{} holds {}; it must hold sections of keys, such as model.layers", path,
               shown(describe(root)));
  }
}

void read_override(const std::string& text, Config& config, Origins& origins) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    fail_input("override '{}' is not a setting; it must be key=value, such as pipeline.stages=4", text);
  }
  const std::string name = fmt::format("override '{}'", text);
  const YAML::Node value = parse_yaml(text.substr(equals + 1), name, false);
  Source(config, origins, "", " in " + name).read(text.substr(0, equals), value, " in " + name);
}

struct Settings {
  Config config;
  Origins origins;
};

// Reads settings without checks across keys.
Settings read_settings(const std::string& path, const std::vector<std::string>& overrides) {
  Settings settings;
  auto& [config, origins] = settings;
  if (!path.empty())
    read_document(read_text("configuration file", path, kLargestConfig), path, config, origins);
  for (const std::string& text : overrides) read_override(text, config, origins);
  return settings;
}

void expand_recompute(PipelineConfig& pipeline) {
  if (pipeline.recompute != std::vector<int>{kEveryStage} || pipeline.stages < 1 ||
      pipeline.stages > kMostStages)
    return;
  pipeline.recompute.resize(pipeline.stages);
  std::iota(pipeline.recompute.begin(), pipeline.recompute.end(), 0);
}

// Adopts the keys of an imported model. A key that is also set must agree, unless it is open or auto.
void adopt_model(const ImportedModel& imported, Config& config, Origins& origins) {
  Config adopted;
  adopted.model = imported.model;
  adopted.model.from = config.model.from;
  for (const Key& key : schema()) {
    if (section_of(key.path) != "model" || key.path == "model.from") continue;
    const std::string theirs = key.write(adopted), ours = key.write(config);
    const auto given = origins.find(key.path);
    if (given == origins.end() || ours == "auto") {
      origins[key.path] = {fmt::format(" in '{}'", imported.file), theirs};
    } else if (ours != theirs) {
      if (std::ranges::find(imported.open, key.path) == imported.open.end()) {
        fail_input("{} is {}{}, but '{}' makes it {}; it must agree, or be left out", key.path,
                   shown(given->second.text), given->second.where, imported.file, shown(theirs));
      }
      key.read(parse_yaml(ours, key.path, false), adopted);
    }
  }
  config.model = adopted.model;
}

}  // namespace

Config load_config(const std::string& path, const std::vector<std::string>& overrides,
                   const ModelReader& read_model) {
  auto [config, origins] = read_settings(path, overrides);
  if (read_model && config.model.is_imported()) adopt_model(read_model(config), config, origins);
  expand_recompute(config.pipeline);
  check_all(config, origins);
  return config;
}

Config load_config_of_run(const std::string& run, const std::vector<std::string>& overrides) {
  const std::string path = run + "/config.yaml";
  if (!has_end(read_text("configuration file", path))) refuse_cut(path);
  return load_config(path, overrides);
}

Config read_overrides(const std::vector<std::string>& overrides) {
  return read_settings("", overrides).config;
}

bool is_set(const std::string& key, const std::string& path, const std::vector<std::string>& overrides) {
  return read_settings(path, overrides).origins.contains(key);
}

Config config_from_text(const std::string& text, const std::string& name,
                        const std::vector<std::string>& overrides) {
  Config config;
  Origins origins;
  read_document(text, name, config, origins);
  for (const std::string& setting : overrides) read_override(setting, config, origins);
  expand_recompute(config.pipeline);
  check_all(config, origins);
  return config;
}

void validate(const Config& config) {
  check_all(config, {});
}

std::string to_yaml(const Config& config) {
  std::string out;
  for (const Section& section : sections()) {
    if (!section.name.empty()) out += heading_of(section);
    for (const Key& key : schema()) {
      if (section_of(key.path) != section.name) continue;
      const std::string indent = section.name.empty() ? "" : "  ";
      const std::string setting = fmt::format("{}{}: {}", indent, name_of(key.path), key.write(config));
      out += fmt::format("{:<36}  # {}\n", setting, key.meaning);
    }
  }
  return out + kEndMark + "\n";
}

}  // namespace twobw
