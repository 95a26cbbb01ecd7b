#include "planning/planner/costs/profile.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/config_values.h"
#include "core/base/error.h"
#include "core/base/gpu_name.h"
#include "core/base/json.h"
#include "core/base/text_file.h"
#include "planning/architecture/families.h"

namespace twobw::planner {
namespace {

const LayerKind& measured_kind(const Profile& profile, const std::string& kind) {
  const auto found = profile.kinds.find(kind);
  if (found != profile.kinds.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [name, times] : profile.kinds) known.push_back(name);
  fail_input("the profile has no layer of kind '{}', which the model needs; it has {}", kind,
             fmt::join(known, ", "));
}

}  // namespace

std::vector<int> sizes_of(const LayerKind& kind) {
  std::vector<int> sizes;
  for (const KindTimes& times : kind.times) sizes.push_back(times.microbatch);
  return sizes;
}

void check_matches(const Profile& profile, const Config& config,
                   const std::vector<std::string>& layer_kinds) {
  const auto same = [](std::string_view key, const auto& profiled, const auto& asked) {
    if (profiled == asked) return;
    fail_input(
        "the profile is of another model: {} was {}, and the configuration has {}; make one with `twobw "
        "profile`",
        key, print_scalar(profiled), print_scalar(asked));
  };
  const auto word = [](bool value) { return std::string(value ? "true" : "false"); };
  const ModelConfig &had = profile.model, &has = config.model;
  same("model.family", had.family, has.family);
  same("model.width", had.width, has.width);
  same("model.heads", had.heads, has.heads);
  same("model.vocab", had.vocab, has.vocab);
  same("model.context", had.context, has.context);
  same("model.tied", word(had.tied), word(has.tied));
  same("model.dropout", had.dropout, has.dropout);
  same("model.head", name(architecture::head_of(had)), name(architecture::head_of(has)));
  same("model.num_labels", had.num_labels, has.num_labels);
  same("model.max_positions", architecture::positions_of(had), architecture::positions_of(has));
  same("model.kv_heads", had.kv_heads, has.kv_heads);
  same("model.head_size", had.head_size, has.head_size);
  same("model.hidden", had.hidden, has.hidden);
  same("model.token_types", had.token_types, has.token_types);
  same("model.next_sentence", word(had.next_sentence), word(has.next_sentence));
  same("model.padding", word(had.padding), word(has.padding));
  same("model.reset_documents", word(had.reset_documents), word(has.reset_documents));
  same("model.qkv_bias", word(had.qkv_bias), word(has.qkv_bias));
  same("model.qk_norm", word(had.qk_norm), word(has.qk_norm));
  same("train.precision", profile.precision, config.train.precision);
  same("optimizer.name", profile.optimizer, config.optimizer.name);
  for (const std::string& kind : layer_kinds) measured_kind(profile, kind);
}

CostTable costs_of(const Profile& profile, const std::vector<std::string>& layer_kinds, double speed) {
  CostTable table{.step_per_parameter = profile.step_per_parameter.median / speed,
                  .predict_per_parameter = profile.predict_per_parameter.median / speed,
                  .fixed_places = names_gpu(profile.device)};
  if (profile.kinds.empty()) return table;
  for (const int microbatch : sizes_of(profile.kinds.begin()->second)) {
    table.columns.push_back(
        {.microbatch = microbatch, .tokens = microbatch * profile.tokens_per_sequence_bytes});
  }
  for (const std::string& name : layer_kinds) {
    const LayerKind& kind = measured_kind(profile, name);
    TWOBW_ASSERT(kind.times.size() == table.columns.size(), "{} sizes of {}", kind.times.size(), name);
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      const KindTimes& times = kind.times[i];
      table.columns[i].layers.push_back({.forward = times.forward.median / speed,
                                         .backward = times.backward.median / speed,
                                         .saved_bytes = times.saved_bytes,
                                         .kept = times.kept,
                                         .output = times.output,
                                         .working = times.working});
    }
  }
  return table;
}

}  // namespace twobw::planner
