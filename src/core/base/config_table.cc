// The rows of the table, one per key, and the rules between keys.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "core/base/config_kinds.h"
#include "core/base/config_schema.h"
#include "core/base/gpu_name.h"
#include "core/base/json.h"
#include "core/base/kinds.h"
#include "core/base/loss_scaling.h"
#include "core/base/parameter_groups.h"

// The path of a key is that of its field: KEY(model.layers) is "model.layers" and the access to the field.
// clang-format off
#define KEY(field) #field, [](auto& config) -> auto& { return config.field; }
// clang-format on

namespace twobw {
namespace {

Range power_of_two() {
  const auto holds = [](double value) {
    const bool inside = value >= LossScaling::kLeast && value <= LossScaling::kMost;
    return inside && std::exp2(std::round(std::log2(value))) == value;
  };
  return {"a power of two from 1 to 16777216", holds};
}

Complaint heads_divide_width(const Config& config) {
  if (config.model.head_size > 0 || config.model.width % config.model.heads == 0) return {};
  return fmt::format("divide model.width, which is {}", config.model.width);
}

Complaint positions_reach(const Config& config) {
  const ModelConfig& model = config.model;
  if (model.max_positions == 0 || model.max_positions >= model.context) return {};
  return fmt::format("be 0 or at least model.context, which is {}", model.context);
}

Complaint kv_heads_divide_heads(const Config& config) {
  const ModelConfig& model = config.model;
  if (model.kv_heads == 0 || model.heads % model.kv_heads == 0) return {};
  return fmt::format("divide model.heads, which is {}", model.heads);
}

Complaint labels_are_for_classification(const Config& config) {
  const ModelConfig& model = config.model;
  if (model.head == ModelHead::Classification || model.num_labels == ModelConfig{}.num_labels) return {};
  return fmt::format("be {} if model.head is {}", ModelConfig{}.num_labels, name(model.head));
}

Complaint factor_scales(const Config& config) {
  if (config.model.rope_scaling != "none" || config.model.rope_factor == 1) return {};
  return "be 1 without model.rope_scaling";
}

Complaint high_is_above_low(const Config& config) {
  const ModelConfig& model = config.model;
  if (model.rope_scaling != "llama3" || model.rope_high_freq_factor > model.rope_low_freq_factor) return {};
  return fmt::format("be above model.rope_low_freq_factor, which is {}", model.rope_low_freq_factor);
}

Complaint original_context_is_known(const Config& config) {
  const ModelConfig& model = config.model;
  const bool needed = model.rope_scaling == "dynamic" || model.rope_scaling == "llama3";
  if (!needed || model.rope_original_context > 0) return {};
  return fmt::format("be at least 1 if model.rope_scaling is {}", model.rope_scaling);
}

Complaint split_fits_stages(const Config& config) {
  const auto& split = config.pipeline.split;
  if (split.empty()) return {};
  if (std::ranges::min(split) < 1) return "give every stage at least 1 layer, not a stage with no layer";
  if (Complaint complaint = split_is_countable(config); !complaint.empty()) return complaint;
  if (static_cast<int>(split.size()) == config.pipeline.stages) return {};
  return fmt::format("have one entry per stage, and pipeline.stages is {}", config.pipeline.stages);
}

Complaint recompute_names_stages(const Config& config) {
  const auto& stages = config.pipeline.recompute;
  auto exists = [&](int stage) { return stage >= 0 && stage < config.pipeline.stages; };
  if (!std::ranges::all_of(stages, exists)) {
    return fmt::format("name stages from 0 to {}, as pipeline.stages is {}", config.pipeline.stages - 1,
                       config.pipeline.stages);
  }
  const bool once = std::set<int>(stages.begin(), stages.end()).size() == stages.size();
  return once ? "" : "name each stage once";
}

Complaint betas_are_two(const Config& config) {
  const auto& betas = config.optimizer.betas;
  const bool good = betas.size() == 2 && std::ranges::all_of(betas, below_one().holds);
  return good ? "" : "be a list of two numbers, each at least 0 and below 1";
}

Complaint groups_are_known(const Config& config) {
  for (const std::string& text : config.optimizer.groups) {
    const auto group = parse_group(text);
    if (!group)
      return fmt::format("be groups such as \"embedding.* lr=1e-4 weight_decay=0\"; '{}' is not a group",
                         shown_name(text));
    if (group->lr && config.optimizer.lr == 0) return "have no lr if optimizer.lr is 0";
  }
  return {};
}

Complaint devices_fit_workers(const Config& config) {
  const auto known = [](const std::string& text) { return names_gpu(text) || is_device(text); };
  const auto bad = std::ranges::find_if_not(config.devices, known);
  if (bad != config.devices.end()) {
    return fmt::format(
        "have entries like cpu:0, cpu:0-3, \"cpu:0,2\", cuda:0 or cuda:0/4; '{}' is not a device",
        shown_name(*bad));
  }
  const std::int64_t count = std::ssize(single_devices(config.devices));
  const std::int64_t gpus = std::ranges::count_if(config.devices, names_gpu);
  if (gpus > 0 && gpus < std::ssize(config.devices)) return "name CPU cores or GPUs, not both";
  const std::int64_t replicas = config.pipeline.replicas, stages = config.pipeline.stages;
  // A plan chooses among the devices.
  if (config.devices.empty() || count == replicas * stages || config.plan == "auto") return {};
  if (replicas == 1) return fmt::format("have one entry per stage, and pipeline.stages is {}", stages);
  return fmt::format("have one entry per stage of every replica, and {} replicas of {} stages make {}",
                     replicas, stages, replicas * stages);
}

Complaint classes_differ(const Config& config) {
  const auto& classes = config.data.classes;
  const bool once = std::set<std::string>(classes.begin(), classes.end()).size() == classes.size();
  return once ? "" : "name each class once";
}

Complaint classes_are_the_models(const Config& config) {
  const ModelConfig& model = config.model;
  if (config.data.classes.empty()) return {};
  if (model.head != ModelHead::Classification)
    return fmt::format("be auto if model.head is {}", name(model.head));
  if (std::ssize(config.data.classes) == model.num_labels) return {};
  return fmt::format("name {0} classes, as model.num_labels is {0}", model.num_labels);
}

std::vector<Key> model_keys() {
  return {
      words(KEY(model.family), "Model family: gpt, llama or bert, see docs/reference/model-families.md."),
      whole(KEY(model.layers), 1, kMostBlocks, "Transformer blocks."),
      whole(KEY(model.width), 1, kWidest, "Hidden size."),
      whole(KEY(model.heads), 1, kMostHeads,
            "Attention heads per block; must divide the width unless head_size is set.")
          .with(heads_divide_width),
      whole(KEY(model.vocab), 1, kMostTokens,
            "Vocabulary size. Default: that of model.from, else the largest of the token files (as twobw "
            "prepare recorded it), of data.tokenizer and of texts as bytes (256; 257 for masked_lm)."),
      whole(KEY(model.context), 1, kLongest, "Sequence length in tokens."),
      boolean(KEY(model.tied), "Share the weights of the token embedding with the output layer."),
      real(KEY(model.dropout), below_one(), "Dropout probability."),
      enumerated(
          KEY(model.head), all_heads(),
          "Output head and training objective: next token, masked tokens, class of a sequence, or a number "
          "for a sequence; auto: the head of model.from, else causal_lm, or masked_lm for bert."),
      whole(KEY(model.num_labels), 2, kMostTokens, "Classes; classification only.")
          .with(labels_are_for_classification),
      whole(KEY(model.max_positions), 0, kLongest,
            "Learned position embeddings, at least context; 0: as many as context; gpt and bert.")
          .with(positions_reach),
      whole(KEY(model.kv_heads), 0, kMostHeads,
            "Key-value heads (grouped-query attention); must divide heads; 0: as many as heads; llama only.")
          .with(kv_heads_divide_heads),
      whole(KEY(model.head_size), 0, kMostHeads, "Size of an attention head; 0: width / heads; llama only.")
          .with(heads_fit),
      whole(
          KEY(model.hidden), 0, kWidestHidden,
          "Feed-forward size; 0: 4 x width for bert, 8/3 x width rounded up to a multiple of 256 for llama; "
          "llama and bert."),
      real(KEY(model.norm_eps), above(0), "Epsilon of the norms; llama and bert."),
      whole(KEY(model.token_types), 1, 100'000,
            "Token types, such as the two parts of a sentence pair; bert only."),
      boolean(KEY(model.next_sentence),
              "Add BERT's next-sentence head and its loss to masked_lm; bert only."),
      boolean(
          KEY(model.padding),
          "Mask padding in attention, for sequences shorter than the context; false is faster on GPUs; bert "
          "only."),
      boolean(KEY(model.reset_documents),
              "Restart attention and positions at every document of token files, see "
              "docs/how-to/prepare-data.md; gpt and llama, causal_lm only."),
      boolean(KEY(model.qkv_bias), "Biases for queries, keys and values, as in Qwen2; llama only."),
      boolean(KEY(model.qk_norm), "Norm of queries and keys per head, as in Qwen3; llama only."),
      real(KEY(model.rope_theta), above(0), "Base of the rotary embedding's frequencies; llama only."),
      choice(KEY(model.rope_scaling), {"none", "linear", "dynamic", "llama3"},
             "Scaling of the rotary embedding to a longer context; llama only."),
      real(KEY(model.rope_factor), at_least(1), "Factor of rope_scaling.").with(factor_scales),
      real(KEY(model.rope_low_freq_factor), above(0),
           "With rope_scaling llama3: frequencies with fewer turns than this in the original context are "
           "scaled by the full factor."),
      real(KEY(model.rope_high_freq_factor), above(0),
           "With rope_scaling llama3: frequencies with more turns than this in the original context are not "
           "scaled.")
          .with(high_is_above_low),
      whole(KEY(model.rope_original_context), 0, kLongest,
            "Sequence length before rope_scaling; required by dynamic and llama3.")
          .with(original_context_is_known),
      words(KEY(model.from),
            "Folder of a Hugging Face model to fine-tune, see docs/how-to/import-export.md: it sets the "
            "keys above and the first weights; none: random weights."),
  };
}

std::vector<Key> data_keys() {
  return {
      corpora(KEY(data.train),
              "Training data: a text file, tokenized with data.tokenizer; token files of `twobw prepare` or "
              "Megatron (PREFIX of PREFIX.bin and PREFIX.idx); a tsv or jsonl file for classification and "
              "regression; synthetic; or a list of these, blended by weight."),
      corpora(KEY(data.validation), "Validation data, in the same forms."),
      words(KEY(data.tokenizer),
            "Tokenizer of texts, token files and generated tokens: a folder, a file, or bytes (every byte "
            "is a token). Default: that of model.from, if it has one."),
      real(KEY(data.mask_probability), part_of_one(),
           "Probability that a token must be predicted: of these tokens 80% are replaced by the mask, 10% "
           "by a random token, and 10% are kept; masked_lm only."),
      boolean(KEY(data.whole_words),
              "Mask all tokens of a word together; masked_lm with WordPiece tokenizers only."),
      words(KEY(data.text),
            "jsonl field, or tsv column, of the text. A column is a name in the first line, or a number "
            "from 1 if the file has no line of names."),
      words(KEY(data.pair),
            "Field or column of a second text; none: single texts; classification and regression only."),
      words(KEY(data.label),
            "Field or column of the class or the number to predict; classification and regression only."),
      list(KEY(data.classes), {{"auto", {}}}, "auto or a list of the names of classes",
           "Class names in the order of their numbers, for data with names and for the exported model; "
           "auto: classes are numbers from 0; classification only.")
          .with(classes_differ)
          .with(classes_are_the_models),
      whole(KEY(data.bucket), 0, 1'000'000,
            "Consecutive training sequences of similar length, best a multiple of "
            "pipeline.microbatch; 0: lengths are mixed; classification and regression only."),
      choice(KEY(data.changed), {"refuse", "allow"},
             "Resume if data or tokenizer files have changed since, see docs/how-to/resume.md."),
  };
}

std::vector<Key> pipeline_keys() {
  return {
      enumerated(KEY(pipeline.schedule), all_kinds(),
                 "Pipeline schedule: order of the microbatches, and the weights they run on."),
      whole(KEY(pipeline.stages), 1, kMostStages, "Pipeline stages, one device each."),
      whole(KEY(pipeline.replicas), 1, kMostReplicas,
            "Data-parallel replicas of the pipeline, one device per stage each."),
      whole(KEY(pipeline.microbatch), 1, kLargestMicrobatch, "Sequences per microbatch."),
      whole(KEY(pipeline.microbatches), 1, kMostMicrobatches,
            "Microbatches per update in each replica (gradient accumulation); 2bw requires at least stages "
            "+ extra, one fewer without predict.")
          .with(batch_is_countable),
      whole(KEY(pipeline.extra), 0, kMostExtra,
            "Extra microbatches in flight, which hide the time of transfers."),
      list(KEY(pipeline.split), {{"auto", {}}}, "auto or a list of the layers of each stage",
           "Layers per stage, in order; auto: balanced by measured time.")
          .with(split_fits_stages),
      list(KEY(pipeline.recompute), {{"none", {}}, {"all", {kEveryStage}}}, "none, all or a list of stages",
           "Stages with activation checkpointing: they keep only their input and run the forward again "
           "before the backward.")
          .with(recompute_names_stages),
      boolean(
          KEY(pipeline.double_buffer_gradients),
          "Under 2bw: a second gradient buffer, in which the next batch accumulates while a gradient waits "
          "for other stages or replicas."),
      boolean(
          KEY(pipeline.defer_tied_update),
          "Under 2bw with one replica: the first stage also has a second gradient buffer and steps as late "
          "as the others. Helps if the gradient of tied weights comes from the last stage over a slow link."),
      boolean(KEY(pipeline.predict),
              "Under 2bw: run a batch on predicted weights. false: on weights that are one update old, as "
              "in the paper."),
      whole(KEY(pipeline.step_slack), 0, kMostMicrobatches,
            "With predict: microbatches of time for the sums and the step before a batch switches from "
            "predicted to true weights. The whole batch runs on predicted weights if microbatches are fewer "
            "than 2 (stages - 1 + extra) + step_slack (with one stage: at most step_slack), if "
            "double_buffer_gradients is false, or with a single device."),
      boolean(KEY(pipeline.shard_state),
              "Shard the optimizer state over the replicas (ZeRO stage 1), and true weights that are kept in "
              "addition to those computed with (fp32 master weights, predictions); results are identical."),
      whole(KEY(pipeline.sync_updates), 0, kMostUpdates,
            "First updates, which run under flush before the schedule takes over."),
      choice(KEY(pipeline.guard), {"off", "warn"},
             "Under 2bw: warn, with a remedy, if predictions fail or the loss rises."),
      real(KEY(pipeline.timeout), some_seconds(), "Timeout in seconds of every wait inside the pipeline."),
      whole(KEY(pipeline.prefetch), 0, 10'000,
            "Microbatches that a data thread of the stage reads ahead; 0: the stage reads them itself."),
      real(KEY(pipeline.memory_limit), at_least(0),
           "GiB of tensors that a stage may allocate; 0: no limit but that of the device."),
  };
}

std::vector<Key> optimizer_keys() {
  return {
      choice(KEY(optimizer.name), optimizer_names(), "Optimizer."),
      real(KEY(optimizer.lr), at_least(0), "Peak learning rate, after the warmup."),
      list(KEY(optimizer.betas), {}, "a list of two numbers, each at least 0 and below 1",
           "Decay rates of the averages of the gradient and of its square; for lion those of the gradient "
           "in the update and in the state.")
          .with(betas_are_two),
      real(KEY(optimizer.eps), above(0),
           "Epsilon in the denominator of the update; adamw, lamb, and parameters that muon updates by "
           "adamw."),
      real(KEY(optimizer.momentum), below_one(), "Momentum; sgd and muon."),
      real(KEY(optimizer.weight_decay), at_least(0),
           "Decoupled weight decay, multiplied by the learning rate; not applied to biases and norms unless "
           "groups sets it."),
      real(KEY(optimizer.clip), at_least(0), "Largest global gradient norm; 0: no clipping."),
      whole(KEY(optimizer.warmup), 0, kMostUpdates,
            "Updates over which the learning rate rises linearly from 0."),
      choice(KEY(optimizer.decay), {"cosine", "linear", "constant"},
             "Learning rate schedule after the warmup."),
      real(KEY(optimizer.min_lr), up_to_one(), "Final learning rate, as a fraction of lr."),
      list(KEY(optimizer.groups), {{"none", {}}},
           "none or a list of groups such as \"embedding.* lr=1e-4 weight_decay=0\"",
           "Parameter groups with their own peak learning rate or weight decay. The first group whose "
           "pattern matches the parameter's name applies; * matches any text.")
          .with(groups_are_known),
  };
}

std::vector<Key> train_keys() {
  return {
      whole(KEY(train.updates), 1, kMostUpdates, "Updates (optimizer steps).").with(tokens_are_countable),
      whole(KEY(train.seed), 0, std::numeric_limits<std::uint64_t>::max(),
            "Seed of the initial weights, the batches and dropout."),
      choice(KEY(train.precision), {"fp32", "bf16", "fp16"},
             "Number format of the computation, see docs/explanation/precision.md; bf16 and fp16 have fp32 "
             "master weights."),
      real(KEY(train.loss_scale), power_of_two(), "Initial loss scale of fp16. A skipped batch halves it."),
      whole(KEY(train.loss_scale_window), 1, 1'000'000'000,
            "Batches without a skip after which the loss scale doubles."),
      boolean(
          KEY(train.deterministic),
          "Use deterministic GPU kernels, even if they are slower; CPU kernels are always deterministic."),
      whole(KEY(train.eval_every), 0, kMostUpdates, "Updates between evaluations; 0: no evaluation."),
      whole(KEY(train.eval_microbatches), 1, kMostMicrobatches,
            "Validation microbatches per evaluation, fewer if the data have fewer; `twobw eval` uses all "
            "data."),
  };
}

std::vector<Key> checkpoint_keys() {
  return {
      whole(KEY(checkpoint.every_updates), 0, kMostUpdates,
            "Updates between checkpoints; 0: not by number of updates."),
      real(KEY(checkpoint.every_minutes), at_least(0), "Minutes between checkpoints; 0: not by time."),
      whole(KEY(checkpoint.keep), 1, 1'000'000,
            "Newest checkpoints to keep, in addition to the one with the lowest validation loss."),
  };
}

std::vector<Key> network_keys() {
  return {
      words(KEY(network.interface),
            "Network interface that other hosts connect to, by name or address; auto: the interface of the "
            "route to the host of rank 0."),
      real(KEY(network.join_timeout), some_seconds(),
           "Seconds within which all processes must join the run."),
      real(KEY(network.heartbeat_timeout), some_seconds(),
           "Seconds without a heartbeat after which a process counts as lost and the run ends."),
  };
}

std::vector<Key> outer_keys() {
  return {
      list(KEY(devices), {{"auto", {}}}, "auto or a list of devices, one per stage of every replica",
           "Device of each stage, replica after replica: CPU cores (cpu:0, cpu:0-3, \"cpu:0,2\"), a GPU "
           "(cuda:0), four slices of a GPU (cuda:0/4), or the third of them (cuda:0/4.2). auto: GPUs, if "
           "there are any for bf16 and fp16 or one per worker for fp32; else CPU cores. With plan: auto, "
           "the devices to plan for.")
          .with(devices_fit_workers),
      words(KEY(run_dir), "Output folder of the run."),
      choice(KEY(plan), {"none", "auto"},
             "auto: measure the model and choose schedule, stages, replicas, microbatches, split and "
             "devices for the given batch size."),
      words(KEY(resume),
            "Run folder whose newest checkpoint to resume from; auto: run_dir, if it has a checkpoint; "
            "none: train from scratch, or from model.from."),
  };
}

std::vector<Key> all_keys() {
  std::vector<Key> all;
  for (auto part : {model_keys, data_keys, pipeline_keys, optimizer_keys, train_keys, checkpoint_keys,
                    network_keys, outer_keys}) {
    std::ranges::move(part(), std::back_inserter(all));
  }
  return all;
}

}  // namespace

const std::vector<Key>& schema() {
  static const std::vector<Key> keys = all_keys();
  return keys;
}

}  // namespace twobw
