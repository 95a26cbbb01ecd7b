// config.json of a Hugging Face model of any family: read, described as layers, and written again.
#include "planning/architecture/families.h"
#include "planning/architecture/huggingface/model_config.h"
#include "planning/architecture/huggingface/names.h"
#include "tests/fuzz/target.h"

namespace twobw::fuzz {

void read_huggingface_config(std::string_view input) {
  constexpr int kMostDescribed = 64;  // layers and labels: larger models only take longer
  namespace huggingface = architecture::huggingface;
  const huggingface::ConfigFile file(input, "config.json");
  Config config;
  config.model = huggingface::read_model(file, ModelHead::Auto).model;
  validate(config);
  if (config.model.layers > kMostDescribed || architecture::outputs_of(config.model) > kMostDescribed) return;
  const architecture::Model model = architecture::model_of(config.model);
  if (architecture::parameter_count(model) <= 0) fail("a model without parameters");
  for (const architecture::Layer& layer : model) {
    for (const architecture::Parameter& parameter : layer.parameters)
      huggingface::pieces_of(config.model, parameter);
    if (layer.work) layer.work({});
  }
  if (huggingface::has_model(config.model)) huggingface::config_json(config.model, "float32", {}).dump();
}

}  // namespace twobw::fuzz
