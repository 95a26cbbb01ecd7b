// The configuration of a run: one YAML file, overridden by key.path=value; every key has a default.
// docs/reference/configuration.md describes every key.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/kinds.h"
#include "core/base/pipeline_shape.h"

namespace twobw {

struct ModelConfig {
  std::string family = "gpt";
  int layers = 8;  // transformer blocks
  int width = 512;
  int heads = 8;
  int vocab = 8192;
  int context = 256;
  bool tied = true;
  double dropout = 0.0;
  ModelHead head = ModelHead::Auto;
  int num_labels = 2;  // classes of classification
  // Family-specific keys, refused in other families (planning/architecture/family_parts.h); 0: derived from
  // the keys above.
  int max_positions = 0;  // learned position embeddings
  int kv_heads = 0;
  int head_size = 0;
  int hidden = 0;  // feed-forward size
  double norm_eps = 1e-5;
  int token_types = 2;
  bool next_sentence = false;
  bool padding = true;  // sequences may be shorter than the context; attention masks the rest
  bool reset_documents = false;
  bool qkv_bias = false;
  bool qk_norm = false;
  double rope_theta = 10000;
  std::string rope_scaling = "none";  // none, linear, dynamic, llama3: see planning/architecture/llama.h
  double rope_factor = 1;
  double rope_low_freq_factor = 1;
  double rope_high_freq_factor = 4;
  int rope_original_context = 0;
  // Folder of a Hugging Face model, which sets the keys above and the first weights; none: random weights.
  std::string from = "none";

  bool is_imported() const { return from != "none"; }
};

struct Corpus {
  std::string path;   // a file, token files, or synthetic
  double weight = 1;  // share of the sequences, relative to the weights of the others
  friend bool operator==(const Corpus&, const Corpus&) = default;
};

using Corpora = std::vector<Corpus>;  // at least one; several are blended by weight

// "runs/a", or "70% of runs/a, 30% of runs/b".
std::string describe(const Corpora& corpora);
bool is_synthetic(const Corpora& corpora);

struct DataConfig {
  Corpora train = {{.path = "synthetic"}};
  Corpora validation = {{.path = "synthetic"}};
  std::string tokenizer = "bytes";
  // masked_lm only.
  double mask_probability = 0.15;
  bool whole_words = false;
  // Fields of jsonl or columns of tsv.
  std::string text = "text";
  std::string pair = "none";  // a second text
  std::string label = "label";
  std::vector<std::string> classes;  // in the order of their numbers; empty: labels are numbers
  int bucket = 0;                    // consecutive sequences of similar length; 0: mixed lengths
  std::string changed = "refuse";    // refuse, allow: on resume, files that have changed
};

// `split` is empty for auto (balanced by measured time). `recompute: all` is expanded when the stages are
// known.
struct PipelineConfig : PipelineShape {
  std::int64_t sync_updates = 0;
  std::string guard = "warn";  // off, warn: see app/train/guard.h
  double timeout = 300;        // seconds, of every wait inside the pipeline
  int prefetch = 4;            // microbatches read ahead by a data thread; 0: read by the stage
  double memory_limit = 0;     // GiB of tensors per stage; 0: no limit
};

struct OptimizerConfig {
  std::string name = "adamw";  // see core/base/kinds.h
  double lr = 1e-3;
  std::vector<double> betas = {0.9, 0.95};
  double eps = 1e-8;
  double momentum = 0.9;  // sgd and muon
  double weight_decay = 0.1;
  double clip = 1.0;  // largest global gradient norm; 0: no clipping
  std::int64_t warmup = 100;
  std::string decay = "cosine";     // cosine, linear, constant
  double min_lr = 0.0;              // at the end of the decay, as a fraction of lr
  std::vector<std::string> groups;  // see core/base/parameter_groups.h
};

struct TrainConfig {
  std::int64_t updates = 1000;
  std::uint64_t seed = 0;
  std::string precision = "fp32";
  double loss_scale = 65536;      // with fp16, of the first batches
  int loss_scale_window = 2000;   // batches without a skip that double it
  bool deterministic = false;     // GPU kernels
  std::int64_t eval_every = 100;  // updates; 0: never
  int eval_microbatches = 16;     // at most, in an evaluation
};

struct CheckpointConfig {
  std::int64_t every_updates = 0;  // 0: not by updates
  double every_minutes = 0;        // 0: not by time
  int keep = 3;                    // the newest, in addition to the best
};

struct NetworkConfig {
  std::string interface = "auto";  // that other hosts connect to, by name or address
  double join_timeout = 120;       // seconds within which all processes must join
  double heartbeat_timeout = 30;   // seconds without a heartbeat after which a process counts as lost
};

struct Config {
  ModelConfig model;
  DataConfig data;
  PipelineConfig pipeline;
  OptimizerConfig optimizer;
  TrainConfig train;
  CheckpointConfig checkpoint;
  NetworkConfig network;
  // One entry per worker, replica after replica: "cpu:0", "cpu:0-3", "cpu:0,2" or GPUs
  // (core/base/gpu_name.h); empty: auto.
  std::vector<std::string> devices;
  std::string run_dir = "runs/default";
  // auto: the planner chooses pipeline and devices from a measurement of the model.
  std::string plan = "none";
  // Folder of the run to resume; auto: run_dir, if it has a checkpoint; none: a new run.
  std::string resume = "none";
};

// The model in the folder of model.from, with the head that model.head asks for.
struct ImportedModel {
  ModelConfig model;
  std::string file;               // its source, for messages
  std::vector<std::string> open;  // keys that a configuration may override
};
using ModelReader = std::function<ImportedModel(const Config& given)>;

// Reads `path` (empty: all defaults), applies `overrides` ("key.path=value") in order and validates. Throws
// InputError for unknown keys, with the nearest known one, and for values of the wrong type or out of range,
// with file and line. If model.from names a folder, `read_model` returns the keys of its model; keys that are
// also set must agree with them. Without a reader model.from is not opened: the configuration of a run has
// all keys.
Config load_config(const std::string& path, const std::vector<std::string>& overrides,
                   const ModelReader& read_model = {});

// Reads config.yaml in the folder of a run. Also throws InputError if the file is cut.
Config load_config_of_run(const std::string& run, const std::vector<std::string>& overrides);

// The defaults with `overrides`, without checks across keys.
Config read_overrides(const std::vector<std::string>& overrides);

// True if the file or an override sets the key. Throws InputError as load_config does.
bool is_set(const std::string& key, const std::string& path, const std::vector<std::string>& overrides);

// Reads a text as load_config reads a file; `name` names it in messages.
Config config_from_text(const std::string& text, const std::string& name,
                        const std::vector<std::string>& overrides = {});

// Checks all keys. engine/runtime/setup.h checks schedule, model and data together.
void validate(const Config& config);

// The resolved configuration as YAML, which load_config reads back to the same values. Its last line is an
// end mark: load_config refuses a truncated text.
std::string to_yaml(const Config& config);

}  // namespace twobw
