// The configuration of a run: one YAML file, overridden by key.path=value; every key has a default.
// docs/config.md describes every key.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/corpora.h"
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
  int num_labels = 2;  // classes that classification tells apart
  // Family-specific keys, refused in other families (planning/architecture/family_parts.h); 0: derived from
  // the keys above.
  int max_positions = 0;  // learned
  int kv_heads = 0;       // heads of keys and values
  int head_size = 0;      // of an attention head
  int hidden = 0;         // size inside the feed-forward
  double norm_eps = 1e-5;
  int token_types = 2;
  bool next_sentence = false;  // masked_lm tells besides whether the second part follows the first
  bool padding = true;         // sequences may be shorter than the context; attention asks for their lengths
  bool reset_documents = false;  // attention and positions begin anew with every document
  bool qkv_bias = false;         // of queries, keys and values, as in Qwen2
  bool qk_norm = false;          // queries and keys are normed head by head, as in Qwen3
  double rope_theta = 10000;
  std::string rope_scaling = "none";  // none, linear, dynamic, llama3: see planning/architecture/llama.h
  double rope_factor = 1;
  double rope_low_freq_factor = 1;
  double rope_high_freq_factor = 4;
  int rope_original_context = 0;
  // A folder of Hugging Face's layout with the keys above and the first weights; none: the keys above stand
  // for themselves, and weights are random.
  std::string from = "none";

  bool is_imported() const { return from != "none"; }
};

struct DataConfig {
  Corpora train = {{.path = "synthetic"}};
  Corpora validation = {{.path = "synthetic"}};
  std::string tokenizer = "bytes";
  // Where model.head is masked_lm.
  double mask_probability = 0.15;
  bool whole_words = false;
  // Where it is classification or regression: fields of jsonl or columns of tsv.
  std::string text = "text";
  std::string pair = "none";  // a second text
  std::string label = "label";
  std::vector<std::string> classes;  // in the order of their numbers; empty: labels are the numbers
  int bucket = 0;                    // sequences of like length that follow one another; 0: any
  std::string changed = "refuse";    // refuse, allow: on resume, files that differ from those before
};

// In the file `split` may be auto (empty: balanced by measured time), and `recompute` none, all or a list of
// stages; all is expanded once the stages are known.
struct PipelineConfig : PipelineShape {
  std::int64_t sync_updates = 0;
  std::string guard = "warn";  // off, warn: see app/train/guard.h
  double timeout = 300;        // seconds that any wait inside the pipeline may last
  int prefetch = 4;            // microbatches whose data a stage reads ahead; 0: its own thread reads
  double memory_limit = 0;     // GiB of tensors that a stage may use; 0: no limit
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
  std::string decay = "cosine";  // cosine, linear, constant
  double min_lr = 0.0;           // where the decay ends, as a fraction of lr
  // Parameters with values of their own, see core/base/parameter_groups.h.
  std::vector<std::string> groups;
};

struct TrainConfig {
  std::int64_t updates = 1000;
  std::uint64_t seed = 0;
  std::string precision = "fp32";
  double loss_scale = 65536;      // with fp16, of the first batches
  int loss_scale_window = 2000;   // batches without a skip that double it
  bool deterministic = false;     // on GPUs the same bits every time
  std::int64_t eval_every = 100;  // updates; 0: never
  int eval_microbatches = 16;     // at most, in an evaluation
};

struct CheckpointConfig {
  std::int64_t every_updates = 0;  // 0: not by updates
  double every_minutes = 0;        // 0: not by time
  int keep = 3;                    // the newest, and the best besides
};

// Between the processes of a run, where there are several.
struct NetworkConfig {
  std::string interface = "auto";  // that other hosts reach this one by: its name or address
  double join_timeout = 120;       // seconds in which all processes must have come
  double heartbeat_timeout = 30;   // seconds without a sign of life after which one counts as lost
};

struct Config {
  ModelConfig model;
  DataConfig data;
  PipelineConfig pipeline;
  OptimizerConfig optimizer;
  TrainConfig train;
  CheckpointConfig checkpoint;
  NetworkConfig network;
  // One entry a worker, replica after replica: "cpu:0" or "cpu:0-3" or "cpu:0,2"; empty: `auto`, the cores
  // dealt out evenly.
  std::vector<std::string> devices;
  std::string run_dir = "runs/default";
  // auto: the model is measured first and the planner chooses what stands under pipeline, and the devices.
  std::string plan = "none";
  // The folder of a run to continue; auto: run_dir, if it has a checkpoint; none: a new run.
  std::string resume = "none";
};

// What the folder says that model.from names, where model.head may ask for another head than it has.
struct ImportedModel {
  ModelConfig model;
  std::string file;               // that says it
  std::vector<std::string> open;  // keys that a configuration may set otherwise
};
using ModelReader = std::function<ImportedModel(const Config& given)>;

// Reads `path` (may be empty: all defaults), applies `overrides` ("key.path=value") in order and
// validates. Throws InputError: unknown keys with the nearest known one, values of the wrong type or
// out of range, with file and line where there is one.
// Where model.from names a folder, `read_model` gives the keys of the model; those that are set besides must
// agree with them. Without a reader model.from is not opened: the configuration of a run has all keys itself.
Config load_config(const std::string& path, const std::vector<std::string>& overrides,
                   const ModelReader& read_model = {});

// Reads config.yaml in the folder of a run. Throws InputError if the file is cut, too.
Config load_config_of_run(const std::string& run, const std::vector<std::string>& overrides);

// The defaults with `overrides`, each checked by itself only.
Config read_overrides(const std::vector<std::string>& overrides);

// Whether the file or an override sets the key. Throws InputError as load_config does for what it reads.
bool is_set(const std::string& key, const std::string& path, const std::vector<std::string>& overrides);

// Reads text, as load_config reads a file; `name` names it in messages.
Config config_from_text(const std::string& text, const std::string& name,
                        const std::vector<std::string>& overrides = {});

// What can be said of each value by itself; what concerns schedule, model and data together is
// checked by engine/runtime/setup.h.
void validate(const Config& config);

// The resolved configuration as YAML that load_config reads back to the same values. Its last line is a mark:
// load_config refuses the text without its end.
std::string to_yaml(const Config& config);

}  // namespace twobw
