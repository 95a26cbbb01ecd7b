#include "text/corpus/prepare_state.h"

#include <filesystem>

#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/base/text_file.h"
#include "text/tokenizer/utf8.h"

namespace twobw::corpus {
namespace {

constexpr int kVersion = 1;

Json to_json(const WritePosition& position) {
  return {{"bin_bytes", position.bin_bytes},
          {"length_bytes", position.length_bytes},
          {"documents", position.documents},
          {"tokens", position.tokens}};
}

WritePosition position_from(const Json& value) {
  return {value.at("bin_bytes"), value.at("length_bytes"), value.at("documents"), value.at("tokens")};
}

Json to_json(const Input& input) {
  // JSON is UTF-8; names of files need not be.
  return {{"path", tokenizer::replace_invalid(input.path)},
          {"format", format_name(input.format)},
          {"bytes", input.bytes},
          {"modified", input.modified}};
}

PrepareState from_json(const Json& value) {
  PrepareState state;
  if (value.at("version") != kVersion) throw Json::other_error::create(501, "version", nullptr);
  state.settings = value.at("settings");
  state.documents = value.at("documents");
  state.empty = value.at("empty");
  state.train = position_from(value.at("train"));
  state.validation = position_from(value.at("validation"));
  state.publishing = value.at("publishing");
  return state;
}

[[noreturn]] void refuse_other(const std::string& out, const std::string& why) {
  fail_input(
      "'{}' is of an interrupted run that differs ({}); finish that one first, or give --restart to drop it",
      state_path(out), why);
}

void check_settings(const std::string& out, const Json& before, const Json& now) {
  for (const auto& [key, value] : now.items()) {
    if (!before.contains(key)) refuse_other(out, fmt::format("it has no {}", key));
    if (before[key] != value) {
      refuse_other(out, fmt::format("{} was {}, now {}", key, before[key].dump(), value.dump()));
    }
  }
}

}  // namespace

std::string state_path(const std::string& out) {
  return out + ".partial.json";
}

void save_state(const std::string& out, const PrepareState& state) {
  Json finished = Json::array();
  for (const Input& input : state.finished) finished.push_back(to_json(input));
  const Json value = {{"version", kVersion},
                      {"settings", state.settings},
                      {"documents", state.documents},
                      {"empty", state.empty},
                      {"train", to_json(state.train)},
                      {"validation", to_json(state.validation)},
                      {"publishing", state.publishing},
                      {"finished", finished}};
  replace_text(state_path(out), value.dump() + "\n");
}

std::optional<PrepareState> load_state(const std::string& out, const Json& settings,
                                       const std::vector<Input>& inputs) {
  const std::string path = state_path(out);
  if (!std::filesystem::exists(path)) return std::nullopt;
  const std::string text = read_text("state of an interrupted run", path);
  PrepareState state;
  Json finished;
  try {
    const Json value = Json::parse(text);
    state = from_json(value);
    finished = value.at("finished");
    finished.get_ref<const Json::array_t&>();
  } catch (const Json::exception&) {
    fail_input("'{}' is damaged; give --restart to begin anew", path);
  }
  check_settings(out, state.settings, settings);
  for (std::size_t i = 0; i < finished.size(); ++i) {
    if (i >= inputs.size()) refuse_other(out, "it had more inputs");
    if (finished[i] != to_json(inputs[i])) {
      refuse_other(out, fmt::format("input '{}' has changed or is another", inputs[i].path));
    }
    state.finished.push_back(inputs[i]);
  }
  if (state.publishing && finished.size() != inputs.size()) refuse_other(out, "it had fewer inputs");
  return state;
}

}  // namespace twobw::corpus
