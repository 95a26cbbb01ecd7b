// What config.json says of a head that tells of sequences. With one label it is a number, with several one of
// them.
#include <fmt/format.h>

#include <set>
#include <string>
#include <utility>

#include "core/base/config_values.h"
#include "planning/architecture/heads.h"
#include "planning/architecture/huggingface/kinds.h"

namespace twobw::architecture::huggingface {
namespace {

const char* problem_of(std::int64_t labels) {
  return labels == 1 ? "regression" : "single_label_classification";
}

int read_label_count(const ConfigFile& file) {
  const std::optional<ConfigFile> names = file.part("id2label");
  if (!names) return file.whole("num_labels", kMostLabels, 2);  // as transformers has it
  if (names->size() == 0 || std::cmp_greater(names->size(), kMostLabels))
    file.refuse("id2label", fmt::format("name from 1 to {} labels", kMostLabels));
  const int count = static_cast<int>(names->size());
  if (file.whole("num_labels", kMostLabels, count) != count)
    file.refuse("num_labels", fmt::format("be {}, as many as id2label names", count));
  return count;
}

}  // namespace

void read_labels(const ConfigFile& file, ModelConfig& config) {
  const int labels = read_label_count(file);
  const std::string problem = problem_of(labels);
  if (file.word("problem_type", problem) != problem)
    file.refuse("problem_type", fmt::format("be {} where the number of labels is {}", problem, labels));
  config.head = labels == 1 ? ModelHead::Regression : ModelHead::Classification;
  if (labels > 1) config.labels = labels;
}

std::vector<std::string> label_names(const ConfigFile& file) {
  const std::optional<ConfigFile> part = file.part("id2label");
  if (!part) return {};
  std::vector<std::string> names;
  bool only_numbered = true;
  for (std::size_t label = 0; label < part->size(); ++label) {
    const std::string key = std::to_string(label);
    if (!part->has(key)) return {};
    names.push_back(part->word(key, ""));
    if (parse_number<std::int64_t>(names.back())) return {};
    only_numbered = only_numbered && names.back() == "LABEL_" + key;
  }
  const bool once = std::set<std::string>(names.begin(), names.end()).size() == names.size();
  return only_numbered || !once ? std::vector<std::string>() : names;
}

void write_labels(const ModelConfig& config, const std::vector<std::string>& classes, nlohmann::json& json) {
  const std::int64_t labels = outputs_of(config);
  const bool named = std::cmp_equal(classes.size(), labels);
  json["problem_type"] = problem_of(labels);
  const auto names = json.find("id2label");
  const bool has_names = names != json.end() && names->is_object() && std::cmp_equal(names->size(), labels);
  if (has_names && !named) return;
  json.erase("num_labels");
  nlohmann::json id_to_label, label_to_id;
  for (std::int64_t label = 0; label < labels; ++label) {
    const std::string name =
        named ? classes[static_cast<std::size_t>(label)] : fmt::format("LABEL_{}", label);
    id_to_label[std::to_string(label)] = name;
    label_to_id[name] = label;
  }
  json["id2label"] = std::move(id_to_label);
  json["label2id"] = std::move(label_to_id);
}

}  // namespace twobw::architecture::huggingface
