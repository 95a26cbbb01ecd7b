// What an evaluation found, as JSON and for people.
#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>

#include "app/inference/evaluation.h"
#include "planning/architecture/families.h"

namespace twobw::inference {

Json to_json(const Evaluation& evaluation) {
  Json json;
  json["head"] = std::string(name(evaluation.head));
  json["sequences"] = evaluation.sequences;
  json["of_sequences"] = evaluation.available > 0 ? Json(evaluation.available) : Json(nullptr);
  const bool tells = architecture::is_sequence_head(evaluation.head);
  if (!tells) json["tokens"] = evaluation.counted;
  const auto add = [&](const char* key, const std::optional<double>& value) {
    json[key] = value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
  };
  add("loss", evaluation.loss);
  if (!tells) add("perplexity", evaluation.perplexity);
  if (evaluation.head == ModelHead::CausalLm) add("bits_per_byte", evaluation.bits_per_byte);
  if (evaluation.head == ModelHead::Classification) {
    add("accuracy", evaluation.accuracy);
    add("f1", evaluation.f1);
    add("matthews", evaluation.matthews);
  }
  if (evaluation.head == ModelHead::Regression) {
    add("pearson", evaluation.pearson);
    add("spearman", evaluation.spearman);
  }
  return json;
}

std::string describe(const Evaluation& evaluation) {
  const auto shown = [](const std::optional<double>& value) {
    return value && std::isfinite(*value) ? fmt::format("{:.6g}", *value) : std::string("unknown");
  };
  std::string text;
  const auto add = [&](const char* what, const std::string& value, const char* more = "") {
    text += fmt::format("  {:<14} {}{}\n", what, value, more);
  };
  if (evaluation.head == ModelHead::Regression) {
    add("squared error", shown(evaluation.loss));
    add("pearson", shown(evaluation.pearson));
    add("spearman", shown(evaluation.spearman));
  } else if (evaluation.head == ModelHead::Classification) {
    add("loss", shown(evaluation.loss));
    add("accuracy", shown(evaluation.accuracy));
    add("f1", shown(evaluation.f1));
    add("matthews", shown(evaluation.matthews));
  } else {
    add("loss", shown(evaluation.loss),
        evaluation.head == ModelHead::MaskedLm ? " nats a masked token" : " nats a token");
    add("perplexity", shown(evaluation.perplexity));
    if (evaluation.head == ModelHead::CausalLm) add("bits per byte", shown(evaluation.bits_per_byte));
    add("tokens", fmt::format("{}", evaluation.counted));
  }
  std::string sequences = fmt::format("{}", evaluation.sequences);
  if (evaluation.available > evaluation.sequences) sequences += fmt::format(" of {}", evaluation.available);
  if (evaluation.sampled) sequences += ", the sample of training; --all evaluates every one";
  add("sequences", sequences);
  return text;
}

}  // namespace twobw::inference
