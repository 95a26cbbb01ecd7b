#include "engine/runtime/setup.h"

#include <fmt/ranges.h>

#include <numeric>

#include "core/base/error.h"
#include "core/base/gpu_name.h"
#include "core/base/kinds.h"
#include "core/base/parameter_groups.h"
#include "engine/checkpoint/pretrained.h"
#include "engine/device/gpu_thread.h"
#include "engine/models/model.h"
#include "engine/runtime/process_devices.h"
#include "engine/transport/sum_rounds.h"
#include "planning/architecture/families.h"
#include "text/tokenizer/tokenizer.h"

namespace twobw::runtime {

namespace {

void check_groups(const Config& config, const models::Model& model) {
  for (const std::string& text : config.optimizer.groups) {
    const std::string pattern = parse_group(text)->pattern;
    bool found = false;
    for (const architecture::Layer& layer : model.layers) {
      for (const architecture::Parameter& parameter : layer.parameters)
        found = found || matches(pattern, parameter.group_name());
    }
    if (found) continue;
    fail_input("optimizer.groups has '{}', but no parameter is named like that; there are {} and others",
               text, model.layers.front().parameters.front().name);
  }
}

std::vector<device::Device> choose_gpus(const Config& config) {
  std::vector<GpuSlice> slices;
  for (const std::string& text : config.devices) {
    if (!device::built_with_cuda())
      fail_input("devices has '{}', but this program was built without CUDA", text);
    for (const GpuSlice& slice : parse_gpu(text)) slices.push_back(slice);
    if (slices.back().gpu >= device::gpu_count())
      fail_input("devices has '{}', but there are {} GPUs here", text, device::gpu_count());
    if (config.train.precision == "bf16" && !device::has_bfloat16(slices.back())) {
      fail_input("train.precision is bf16, which {} ({}) does not have; it must be fp16 or fp32", text,
                 device::describe_gpu(slices.back()));
    }
  }
  if (config.pipeline.replicas > transport::kMostReplicasOnGpus)
    fail_input("pipeline.replicas is {}; on GPUs at most {} are allowed", config.pipeline.replicas,
               transport::kMostReplicasOnGpus);
  std::vector<device::Device> devices;
  for (const GpuSlice& slice : slices) devices.push_back({.gpu = slice});
  return devices;
}

std::vector<device::Device> bind_workers(const Config& config, int workers) {
  if (config.devices.empty()) return device::deal_devices(workers);
  if (names_gpu(config.devices.front())) return choose_gpus(config);
  std::vector<device::Device> devices;
  for (const std::string& text : config.devices) devices.push_back({.cores = device::parse_cores(text)});
  return devices;
}

// A family of somebody's own may read more of a batch than its head is given.
void check_fields(const Setup& setup) {
  const ModelConfig& model = setup.config.model;
  const auto taken = architecture::taken_by(setup.model.layers, 0, setup.model.size());
  for (const data::Field field : architecture::kFields) {
    if (architecture::kScales.has(field) || !taken.has(field) || setup.training->fields().has(field))
      continue;
    fail_input("model.head is {}, whose data have no {}, but model.family {} reads them; choose another head",
               name(architecture::head_of(model)), architecture::name(field), model.family);
  }
}

void check_buckets(const Config& config) {
  const ModelHead head = architecture::head_of(config.model);
  if (config.data.bucket == 0 || architecture::is_sequence_head(head)) return;
  fail_input("data.bucket is {}, but with model.head: {} all sequences have the same length; it must be 0",
             config.data.bucket, name(head));
}

}  // namespace

schedule::Spec spec_of(const Config& config) {
  return {.shape = config.pipeline,
          .updates = config.train.updates,
          .sync_updates = config.pipeline.sync_updates,
          .evaluate_every = config.train.eval_every};
}

void check_split(const Config& config, const models::Model& model) {
  const int layers = model.size();
  const PipelineConfig& pipeline = config.pipeline;
  if (pipeline.stages > layers) {
    fail_input(
        "pipeline.stages is {}, but the model has {}: a stage would have no layer; at most {} stages are "
        "allowed",
        pipeline.stages, architecture::describe(model.layers), layers);
  }
  if (pipeline.split.empty()) return;
  const int covered = std::accumulate(pipeline.split.begin(), pipeline.split.end(), 0);
  if (covered != layers) {
    fail_input("pipeline.split is [{}], which covers {} layers; it must cover the model's {}",
               fmt::join(pipeline.split, ", "), covered, architecture::describe(model.layers));
  }
}

// A run on tokens does not need its tokenizer, but generating text from its model does.
void check_tokenizer(const Config& config) {
  const std::string& name = config.data.tokenizer;
  const bool encodes = architecture::is_sequence_head(architecture::head_of(config.model)) &&
                       !(is_synthetic(config.data.train) && is_synthetic(config.data.validation));
  if (name == "bytes" && !encodes) return;
  const auto tokens = tokenizer::load_tokenizer(name)->vocab_size();
  if (tokens > config.model.vocab) {
    fail_input("model.vocab is {}, but data.tokenizer '{}' has {} tokens; it must be at least {}",
               config.model.vocab, name, tokens, tokens);
  }
}

std::vector<std::string> auto_gpus(const Config& config, std::optional<int> count, AutoDevices policy) {
  const std::vector<HostDevices> here = {host_devices()};
  if (!config.devices.empty() || !choose_devices(config, here, policy).gpus) return config.devices;
  const auto gpus = static_cast<int>(here.front().gpus.size());
  std::vector<std::string> names;
  for (const GpuSlice& slice : deal_gpus(gpus, count.value_or(gpus))) names.push_back(describe(slice));
  return names;
}

std::vector<device::Device> devices_for(const Config& given, int workers) {
  Config config = given;
  config.devices = auto_gpus(given, workers, AutoDevices::SameBits);
  return bind_workers(config, workers);
}

double tokens_per_update(const Config& config) {
  return 1.0 * config.pipeline.batch() * config.model.context;
}

Setup prepare(const Config& given, std::vector<device::Device> devices, AutoDevices policy) {
  Config config = given;
  Setup setup{.spec = spec_of(config)};
  if (devices.empty()) config.devices = auto_gpus(config, setup.spec.shape.workers(), policy);
  if (config.devices.empty() && !devices.empty() && devices.front().gpu) {
    for (const device::Device& device : devices) config.devices.push_back(device::describe(device));
  }
  setup.config = config;
  schedule::validate(setup.spec);
  setup.model = models::build(config.model);
  if (config.model.is_imported())
    setup.head_change = checkpoint::Pretrained(config.model).check(setup.model.layers);
  check_groups(config, setup.model);
  check_split(config, setup.model);
  setup.devices = devices.empty() ? bind_workers(config, setup.spec.shape.workers()) : std::move(devices);
  if (setup.devices.front().gpu && config.train.deterministic) device::compute_deterministically();
  check_tokenizer(config);  // before texts are tokenized
  setup.training = data::open_source("data.train", config.data.train, config);
  setup.validation = data::open_source("data.validation", config.data.validation, config);
  check_fields(setup);
  check_buckets(config);
  return setup;
}

}  // namespace twobw::runtime
