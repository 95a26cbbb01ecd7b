// The rows of the table: one per key, and the rules that tie keys together.
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

// A key is spelled as its field is: KEY(model.layers) is the path "model.layers" and the access to it.
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
  return fmt::format("be {} where model.head is {}", ModelConfig{}.num_labels, name(model.head));
}

Complaint factor_scales(const Config& config) {
  if (config.model.rope_scaling != "none" || config.model.rope_factor == 1) return {};
  return "be 1 where model.rope_scaling is none";
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
  return fmt::format("be at least 1 where model.rope_scaling is {}", model.rope_scaling);
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
      return fmt::format("be groups such as \"embedding.* lr=1e-4 weight_decay=0\", '{}' is none",
                         shown_name(text));
    if (group->lr && config.optimizer.lr == 0) return "have no lr where optimizer.lr is 0";
  }
  return {};
}

Complaint devices_fit_workers(const Config& config) {
  const auto known = [](const std::string& text) { return names_gpu(text) || is_device(text); };
  const auto bad = std::ranges::find_if_not(config.devices, known);
  if (bad != config.devices.end()) {
    return fmt::format("have entries like cpu:0, cpu:0-3, \"cpu:0,2\", cuda:0 or cuda:0/4, and '{}' is none",
                       shown_name(*bad));
  }
  const std::int64_t count = std::ssize(single_devices(config.devices));
  const std::int64_t gpus = std::ranges::count_if(config.devices, names_gpu);
  if (gpus > 0 && gpus < std::ssize(config.devices)) return "name CPU cores or GPUs, not both";
  const std::int64_t replicas = config.pipeline.replicas, stages = config.pipeline.stages;
  // A plan chooses among them.
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
    return fmt::format("be auto where model.head is {}", name(model.head));
  if (std::ssize(config.data.classes) == model.num_labels) return {};
  return fmt::format("name as many classes as model.num_labels says, which is {}", model.num_labels);
}

std::vector<Key> model_keys() {
  return {
      words(KEY(model.family), "Architecture of the layers: gpt, llama or bert, see docs/families.md."),
      whole(KEY(model.layers), 1, kMostBlocks, "Transformer blocks."),
      whole(KEY(model.width), 1, kWidest, "Size of the hidden state."),
      whole(KEY(model.heads), 1, kMostHeads,
            "Attention heads in a block; they divide the width, unless head_size is set.")
          .with(heads_divide_width),
      whole(
          KEY(model.vocab), 1, kMostTokens,
          "Tokens that the model knows. Not set, it is that of model.from, else the largest vocabulary of "
          "the token files (as twobw prepare recorded it), of data.tokenizer and of texts as bytes (256, for "
          "masked_lm 257)."),
      whole(KEY(model.context), 1, kLongest, "Tokens in a sequence."),
      boolean(KEY(model.tied), "Whether the output layer shares the weights of the token embedding."),
      real(KEY(model.dropout), below_one(), "Chance that dropout zeroes an element in training."),
      enumerated(
          KEY(model.head), all_heads(),
          "Output head: predicts the next token, masked tokens, the class of a sequence, or a number for it; "
          "auto: the head of model.from, else causal_lm, for bert masked_lm."),
      whole(KEY(model.num_labels), 2, kMostTokens, "Number of classes; classification only.")
          .with(labels_are_for_classification),
      whole(KEY(model.max_positions), 0, kLongest,
            "Learned position embeddings, at least context; 0: as many as context; gpt and bert.")
          .with(positions_reach),
      whole(KEY(model.kv_heads), 0, kMostHeads,
            "Heads of keys and values, each for heads / kv_heads of the queries; 0: as many as heads; llama "
            "only.")
          .with(kv_heads_divide_heads),
      whole(KEY(model.head_size), 0, kMostHeads, "Size of an attention head; 0: width / heads; llama only.")
          .with(heads_fit),
      whole(
          KEY(model.hidden), 0, kWidestHidden,
          "Size inside the feed-forward; 0: 4 times the width, of llama 8/3, up to a multiple of 256; llama "
          "and bert."),
      real(KEY(model.norm_eps), above(0),
           "What a norm adds to the mean square or the variance; llama and bert."),
      whole(KEY(model.token_types), 1, 100'000, "Kinds of tokens, as the two parts of a pair; bert only."),
      boolean(KEY(model.next_sentence),
              "Whether masked_lm has a second head, which tells if the second part of a sequence follows the "
              "first, and a loss of its own for it; bert only."),
      boolean(KEY(model.padding),
              "Whether sequences may be shorter than the context, and attention leaves out what comes after "
              "their end; false is faster on GPUs; bert only."),
      boolean(
          KEY(model.reset_documents),
          "Whether attention and positions begin anew with every document of token files, see docs/data.md; "
          "gpt and llama, causal_lm only."),
      boolean(KEY(model.qkv_bias), "Whether queries, keys and values have biases, as in Qwen2; llama only."),
      boolean(KEY(model.qk_norm),
              "Whether queries and keys are normed head by head, as in Qwen3; llama only."),
      real(KEY(model.rope_theta), above(0), "Base of the rotary embedding's frequencies; llama only."),
      choice(KEY(model.rope_scaling), {"none", "linear", "dynamic", "llama3"},
             "How the rotary embedding is stretched to a longer context; llama only."),
      real(KEY(model.rope_factor), at_least(1), "By how much rope_scaling stretches.").with(factor_scales),
      real(KEY(model.rope_low_freq_factor), above(0),
           "With rope_scaling llama3, angles that turn fewer times than this in the original context are "
           "stretched in full."),
      real(KEY(model.rope_high_freq_factor), above(0),
           "With rope_scaling llama3, angles that turn more times than this in the original context are not "
           "stretched.")
          .with(high_is_above_low),
      whole(KEY(model.rope_original_context), 0, kLongest,
            "Tokens in a sequence before rope_scaling; dynamic and llama3 need it.")
          .with(original_context_is_known),
      words(KEY(model.from),
            "Folder of a Hugging Face model to start from, see docs/huggingface.md: the keys above are "
            "its own, and so are the first weights; none: weights are random."),
  };
}

std::vector<Key> data_keys() {
  return {
      corpora(
          KEY(data.train),
          "File of training text, as tokens of data.tokenizer (bytes: every byte of the file is a token); "
          "or token files of `twobw prepare` or Megatron (PREFIX of PREFIX.bin and PREFIX.idx); or a tsv "
          "or jsonl file, for classification and regression; or synthetic: made up; or several of these, "
          "blended by weight."),
      corpora(KEY(data.validation), "The same for evaluation: held out, or synthetic."),
      words(KEY(data.tokenizer),
            "Tokenizer of texts, or the one that made the token files; it decodes generated tokens too: a "
            "folder, a file, or bytes. Not set, it is the one in the folder of model.from, where there is "
            "one."),
      real(KEY(data.mask_probability), part_of_one(),
           "Probability that a token is predicted; 80% of these are replaced by the mask, 10% by another "
           "token, 10% are kept; masked_lm only."),
      boolean(KEY(data.whole_words),
              "Whether the tokens of a word are masked together; for WordPiece tokenizers, masked_lm only."),
      words(
          KEY(data.text),
          "Field of jsonl with the text, or column of tsv: its name in the first line, or its number from 1 "
          "on where no line names them."),
      words(KEY(data.pair),
            "The same of a second text; none: there is one text; classification and regression only."),
      words(KEY(data.label),
            "The same of the class or the number to predict; classification and regression only."),
      list(KEY(data.classes), {{"auto", {}}}, "auto or a list of the names of classes",
           "Names of classes, class 0 first, for data that have the names or the numbers, and for the "
           "exported "
           "model; auto: they are numbers, from 0 on; classification only.")
          .with(classes_differ)
          .with(classes_are_the_models),
      whole(KEY(data.bucket), 0, 1'000'000,
            "Sequences of like length that follow one another in training, best a multiple of "
            "pipeline.microbatch; 0: lengths do not matter; classification and regression only."),
      choice(KEY(data.changed), {"refuse", "allow"},
             "Whether a run may be resumed with files of data or tokenizer that have changed since, see "
             "docs/checkpoints.md."),
  };
}

std::vector<Key> pipeline_keys() {
  return {
      enumerated(KEY(pipeline.schedule), all_kinds(),
                 "Order of the work, and the weights each microbatch runs on."),
      whole(KEY(pipeline.stages), 1, kMostStages, "Parts the model is cut into, one device each."),
      whole(KEY(pipeline.replicas), 1, kMostReplicas,
            "Copies of the pipeline, one device a stage each, that train on every update together."),
      whole(KEY(pipeline.microbatch), 1, kLargestMicrobatch, "Sequences in a microbatch."),
      whole(KEY(pipeline.microbatches), 1, kMostMicrobatches,
            "Microbatches in an update, for each replica; 2bw needs at least stages + extra, and one fewer "
            "without predict.")
          .with(batch_is_countable),
      whole(KEY(pipeline.extra), 0, kMostExtra,
            "Extra microbatches in flight, to hide the time of transfers."),
      list(KEY(pipeline.split), {{"auto", {}}}, "auto or a list of the layers of each stage",
           "Layers of each stage, in order; auto balances them by measured time.")
          .with(split_fits_stages),
      list(KEY(pipeline.recompute), {{"none", {}}, {"all", {kEveryStage}}}, "none, all or a list of stages",
           "Stages that keep only their input and run the forward again before the backward.")
          .with(recompute_names_stages),
      boolean(
          KEY(pipeline.double_buffer_gradients),
          "Under 2bw, whether a second gradient buffer lets the next batch accumulate while a gradient waits "
          "for other stages or replicas."),
      boolean(
          KEY(pipeline.defer_tied_update),
          "Under 2bw with one replica, whether the first stage has a second gradient buffer too, for tied "
          "weights whose gradient comes from the last stage over a slow link: it then steps as late as the "
          "others."),
      boolean(KEY(pipeline.predict),
              "Under 2bw, whether a batch computes on a prediction of its weights; false is the rule of the "
              "paper, whose weights are one update old."),
      whole(
          KEY(pipeline.step_slack), 0, kMostMicrobatches,
          "With predict, microbatches of time for the norm, sums over replicas and the step before the batch "
          "switches to its true weights. The whole batch runs on predicted weights if microbatches are fewer "
          "than 2 (stages - 1 + extra) + step_slack (with one stage: not more than step_slack), if "
          "double_buffer_gradients is false, and with one stage and one replica."),
      boolean(KEY(pipeline.shard_state),
              "Whether each of several replicas keeps the optimizer's state, and the true weights where "
              "others are computed with, of its part of a stage alone; the results are the same."),
      whole(KEY(pipeline.sync_updates), 0, kMostUpdates,
            "First updates that run under flush, before the schedule takes over."),
      choice(KEY(pipeline.guard), {"off", "warn"},
             "Under 2bw, whether a warning that names a remedy is printed when predictions fail or the loss "
             "climbs."),
      real(KEY(pipeline.timeout), some_seconds(), "Seconds that any wait inside the pipeline may last."),
      whole(
          KEY(pipeline.prefetch), 0, 10'000,
          "Microbatches whose data a stage reads ahead on a thread of its own; 0: the stage reads them when "
          "it comes to them."),
      real(KEY(pipeline.memory_limit), at_least(0),
           "GiB of tensors that a stage may use, as if its device had no more; 0 does not limit."),
  };
}

std::vector<Key> optimizer_keys() {
  return {
      choice(KEY(optimizer.name), optimizer_names(), "Rule of the update."),
      real(KEY(optimizer.lr), at_least(0), "Learning rate at its height, after the warmup."),
      list(KEY(optimizer.betas), {}, "a list of two numbers, each at least 0 and below 1",
           "Decay of the averages of the gradient and of its square; for lion of the gradient's, in the "
           "update and in the state.")
          .with(betas_are_two),
      real(KEY(optimizer.eps), above(0),
           "Added to the denominator of the update; adamw, lamb, and parameters that muon updates by adamw."),
      real(KEY(optimizer.momentum), below_one(), "Decay of the running sum of gradients; sgd and muon."),
      real(KEY(optimizer.weight_decay), at_least(0),
           "Decoupled weight decay, times the learning rate; biases and norms have none, unless groups sets "
           "it."),
      real(KEY(optimizer.clip), at_least(0), "Largest norm of the whole gradient; 0 does not clip."),
      whole(KEY(optimizer.warmup), 0, kMostUpdates, "Updates over which the learning rate climbs from 0."),
      choice(KEY(optimizer.decay), {"cosine", "linear", "constant"},
             "Course of the learning rate after the warmup."),
      real(KEY(optimizer.min_lr), up_to_one(), "Where the decay ends, as a fraction of lr."),
      list(KEY(optimizer.groups), {{"none", {}}},
           "none or a list of groups such as \"embedding.* lr=1e-4 weight_decay=0\"",
           "Parameters with a learning rate (at its height) or a weight decay of their own: the first group "
           "whose pattern fits the name holds, and * stands for any text.")
          .with(groups_are_known),
  };
}

std::vector<Key> train_keys() {
  return {
      whole(KEY(train.updates), 1, kMostUpdates, "Updates of the weights in the run.")
          .with(tokens_are_countable),
      whole(KEY(train.seed), 0, std::numeric_limits<std::uint64_t>::max(),
            "Seed of the initial weights, the batches and dropout."),
      choice(KEY(train.precision), {"fp32", "bf16", "fp16"},
             "Number format of the computation, see docs/precision.md; with bf16 and fp16 the weights are "
             "kept in "
             "fp32 besides."),
      real(KEY(train.loss_scale), power_of_two(),
           "With precision fp16: what the gradient of the loss is multiplied with at first. A skipped batch "
           "halves it."),
      whole(KEY(train.loss_scale_window), 1, 1'000'000'000,
            "Batches without a skip after which the loss scale doubles."),
      boolean(KEY(train.deterministic),
              "Whether kernels on GPUs give the same bits every time, also where that takes longer; those on "
              "CPUs "
              "always do."),
      whole(KEY(train.eval_every), 0, kMostUpdates, "Updates between evaluations; 0 never evaluates."),
      whole(KEY(train.eval_microbatches), 1, kMostMicrobatches,
            "Validation microbatches in an evaluation; fewer if the data have fewer."),
  };
}

std::vector<Key> checkpoint_keys() {
  return {
      whole(KEY(checkpoint.every_updates), 0, kMostUpdates,
            "Updates between checkpoints; 0 saves none by their number."),
      real(KEY(checkpoint.every_minutes), at_least(0),
           "Minutes between checkpoints; 0 saves none by the time."),
      whole(KEY(checkpoint.keep), 1, 1'000'000,
            "Newest checkpoints to keep; the one with the lowest validation loss is kept besides."),
  };
}

std::vector<Key> network_keys() {
  return {
      words(KEY(network.interface),
            "Network interface by which other hosts reach this one, as its name or address; auto: the one "
            "that leads to the host of process 0."),
      real(KEY(network.join_timeout), some_seconds(),
           "Seconds in which all processes of a run must join it."),
      real(KEY(network.heartbeat_timeout), some_seconds(),
           "Seconds without a heartbeat after which a process counts as lost, and the run ends."),
  };
}

std::vector<Key> outer_keys() {
  return {
      list(
          KEY(devices), {{"auto", {}}}, "auto or a list of devices, one per stage of every replica",
          "Device of each stage, replica after replica: cores (cpu:0, cpu:0-3, \"cpu:0,2\"), a GPU (cuda:0), "
          "cuda:0/4 for four slices of one, cuda:0/4.2 for the third of them; auto: GPUs if there are any in "
          "bf16 and fp16, or one for each worker in fp32; else CPU cores. With plan: auto, those to plan "
          "for.")
          .with(devices_fit_workers),
      words(KEY(run_dir), "Folder that the run writes to."),
      choice(
          KEY(plan), {"none", "auto"},
          "auto measures the model and chooses schedule, stages, replicas, microbatches, split and devices "
          "for a batch of the size given here."),
      words(KEY(resume),
            "Folder of a run to continue from its newest checkpoint; auto continues the run in run_dir, if "
            "there is "
            "one; none starts anew."),
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
