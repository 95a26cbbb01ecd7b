// profile.json, written and read.
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/text_file.h"
#include "planning/architecture/families.h"
#include "planning/planner/costs/profile.h"

namespace twobw::planner {
namespace {

Json write(const Measured& measured) {
  return {{"median", measured.median}, {"spread", measured.spread}};
}

std::vector<JsonField> items_of(const JsonField& field) {
  std::vector<JsonField> items = field.items();
  if (items.empty()) field.refuse("be a list, not empty");
  return items;
}

Measured read_measured(const JsonField& field) {
  return {.median = field["median"].number(), .spread = field["spread"].number()};
}

Json write(const KindTimes& times) {
  return {{"microbatch", times.microbatch},
          {"forward_seconds", write(times.forward)},
          {"backward_seconds", write(times.backward)},
          {"recomputed_backward_seconds", write(times.recomputed_backward)},
          {"saved_bytes", times.saved_bytes},
          {"kept_output_bytes", times.kept},
          {"output_bytes", times.output},
          {"working_bytes", times.working}};
}

KindTimes read_times(const JsonField& field) {
  return {.microbatch = field["microbatch"].whole(),
          .forward = read_measured(field["forward_seconds"]),
          .backward = read_measured(field["backward_seconds"]),
          .recomputed_backward = read_measured(field["recomputed_backward_seconds"]),
          .saved_bytes = field["saved_bytes"].number(),
          .kept = field["kept_output_bytes"].number(),
          .output = field["output_bytes"].number(),
          .working = field["working_bytes"].number()};
}

Json write(const LayerKind& kind) {
  Json times = Json::array();
  for (const KindTimes& each : kind.times) times.push_back(write(each));
  return {{"parameters", kind.parameters}, {"tied_parameters", kind.tied}, {"times", times}};
}

LayerKind read_kind(const JsonField& field) {
  LayerKind kind{.parameters = field["parameters"].number(), .tied = field["tied_parameters"].number()};
  int last = 0;
  for (const JsonField& each : items_of(field["times"])) {
    kind.times.push_back(read_times(each));
    const int microbatch = kind.times.back().microbatch;
    if (microbatch <= last) each["microbatch"].refuse(fmt::format("be more than the {} before it", last));
    last = microbatch;
  }
  return kind;
}

Json write(const ModelConfig& model) {
  return {{"family", model.family},
          {"layers", model.layers},
          {"width", model.width},
          {"heads", model.heads},
          {"vocab", model.vocab},
          {"context", model.context},
          {"tied", model.tied},
          {"dropout", model.dropout},
          {"head", std::string(name(model.head))},
          {"num_labels", model.num_labels},
          {"max_positions", model.max_positions},
          {"kv_heads", model.kv_heads},
          {"head_size", model.head_size},
          {"hidden", model.hidden},
          {"token_types", model.token_types},
          {"next_sentence", model.next_sentence},
          {"padding", model.padding},
          {"reset_documents", model.reset_documents},
          {"qkv_bias", model.qkv_bias},
          {"qk_norm", model.qk_norm}};
}

ModelHead read_head(const JsonField& field) {
  const std::string text = field.text();
  for (const ModelHead head : all_heads()) {
    if (name(head) == text) return head;
  }
  field.refuse("be a head of a model");
}

ModelConfig read_model(const JsonField& field) {
  return {.family = field["family"].text(),
          .layers = field["layers"].whole(),
          .width = field["width"].whole(),
          .heads = field["heads"].whole(),
          .vocab = field["vocab"].whole(),
          .context = field["context"].whole(),
          .tied = field["tied"].flag(),
          .dropout = field["dropout"].number(),
          .head = read_head(field["head"]),
          .num_labels = field["num_labels"].whole(),
          .max_positions = field["max_positions"].whole(),
          .kv_heads = field["kv_heads"].whole(),
          .head_size = field["head_size"].whole(),
          .hidden = field["hidden"].whole(),
          .token_types = field["token_types"].whole(),
          .next_sentence = field["next_sentence"].flag(),
          .padding = field["padding"].flag(),
          .reset_documents = field["reset_documents"].flag(),
          .qkv_bias = field["qkv_bias"].flag(),
          .qk_norm = field["qk_norm"].flag()};
}

Json write(const LinkSpec& link) {
  return {{"latency_seconds", link.latency},
          {"bandwidth_bytes_per_second", link.bandwidth},
          {"shared", link.shared}};
}

LinkSpec read_link(const JsonField& field) {
  const LinkSpec link{.latency = field["latency_seconds"].number(),
                      .bandwidth = field["bandwidth_bytes_per_second"].number(),
                      .shared = field["shared"].flag()};
  if (link.bandwidth <= 0) field["bandwidth_bytes_per_second"].refuse("be a number above 0");
  return link;
}

// All kinds at the same microbatch sizes, and every layer of a kind that was measured.
void check_complete(const Profile& profile, const JsonField& document) {
  for (const auto& [name, kind] : profile.kinds) {
    if (sizes_of(kind) == sizes_of(profile.kinds.begin()->second)) continue;
    document["kinds"][name]["times"].refuse("be at the same microbatch sizes as the other kinds");
  }
  const std::vector<JsonField> layers = document["layers"].items();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!profile.kinds.contains(profile.layers[i])) layers[i].refuse("be one of the kinds in this profile");
  }
}

}  // namespace

std::string to_json(const Profile& profile) {
  Json kinds = Json::object(), links = Json::object();
  for (const auto& [name, kind] : profile.kinds) kinds[name] = write(kind);
  for (const auto& [name, link] : profile.links) links[name] = write(link);
  return pretty({{"version", profile.version},
                 {"device", profile.device},
                 {"device_memory_bytes", profile.device_memory},
                 {"program", profile.program},
                 {"libtorch", profile.libtorch},
                 {"created", profile.created},
                 {"model", write(profile.model)},
                 {"precision", profile.precision},
                 {"optimizer", profile.optimizer},
                 {"kinds", kinds},
                 {"layers", profile.layers},
                 {"token_bytes_per_sequence", profile.tokens_per_sequence_bytes},
                 {"step_seconds_per_parameter", write(profile.step_per_parameter)},
                 {"predict_seconds_per_parameter", write(profile.predict_per_parameter)},
                 {"links", links}});
}

Profile load_profile(const std::string& path) {
  return parse_profile(read_text("profile", path, kLargestConfig), path);
}

Profile parse_profile(const std::string& text, const std::string& path) {
  constexpr int kDeepest = 32;
  const std::string name = fmt::format("profile '{}'", path), problem = find_json_problem(text, kDeepest);
  if (!problem.empty() && problem != kNotJson) fail_input("{} {}", name, problem);
  const JsonDocument document(text, name, "; `twobw profile` writes all of them");
  const JsonField json = document.root();
  Profile profile{.version = json["version"].whole()};
  if (profile.version != kProfileVersion) {
    fail_input(
        "profile '{}' is of version {}; this program reads version {}, so make it again with `twobw profile`",
        path, profile.version, kProfileVersion);
  }
  profile.device = json["device"].text();
  profile.device_memory = json["device_memory_bytes"].number();
  profile.program = json["program"].text();
  profile.libtorch = json["libtorch"].text();
  profile.created = json["created"].text();
  profile.model = read_model(json["model"]);
  profile.precision = json["precision"].text();
  profile.optimizer = json["optimizer"].text();
  for (const auto& [name, kind] : json["kinds"].entries()) profile.kinds[name] = read_kind(kind);
  for (const JsonField& layer : items_of(json["layers"])) profile.layers.push_back(layer.text());
  profile.tokens_per_sequence_bytes = json["token_bytes_per_sequence"].number();
  profile.step_per_parameter = read_measured(json["step_seconds_per_parameter"]);
  profile.predict_per_parameter = read_measured(json["predict_seconds_per_parameter"]);
  for (const auto& [name, link] : json["links"].entries()) profile.links[name] = read_link(link);
  check_complete(profile, json);
  return profile;
}

}  // namespace twobw::planner
