#include "app/inference/evaluation.h"

#include <cmath>
#include <memory>

#include "app/inference/stages.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "engine/data/tokens.h"
#include "engine/runtime/setup.h"
#include "planning/architecture/families.h"
#include "text/tokenizer/tokenizer.h"

namespace twobw::inference {
namespace {

using architecture::BatchFields;
using architecture::Field;

// The microbatches to evaluate.
class Microbatches {
 public:
  explicit Microbatches(const ModelSource& source) : config_(source.config) {
    const Corpora& corpora = config_.data.validation;
    if (source.sample) {
      add(corpora, *source.sample);  // blended, as in training
    } else {
      for (const Corpus& corpus : corpora) add(Corpora{{.path = corpus.path}}, std::nullopt);
    }
  }

  std::size_t size() const { return portions_.size(); }
  std::int64_t sequences() const { return sequences_; }
  std::int64_t available() const { return available_; }
  BatchFields fields() const { return sources_.front()->fields(); }

  data::Batch read(std::size_t i, BatchFields fields, bool cuts) const {
    if (fields.empty()) return {};
    const Portion& portion = portions_[i];
    const auto [index, sequences] = portion.place;
    const bool varies = cuts && portion.source->varies();
    const BatchFields asked = varies ? fields | BatchFields{Field::Lengths} : fields;
    data::Batch batch = portion.source->sequential(index, sequences, config_.model.context, asked);
    if (varies) data::cut_padding(batch);
    if (!fields.has(Field::Lengths)) batch[Field::Lengths] = at::Tensor();
    return batch;
  }

 private:
  struct Portion {
    const data::Source* source;
    data::Portion place;
  };

  void add(const Corpora& corpora, std::optional<std::int64_t> most) {
    sources_.push_back(data::open_source("data.validation", corpora, config_));
    const data::Source& source = *sources_.back();
    const int b = config_.pipeline.microbatch;
    const std::int64_t count = source.count();
    if (!most) most = count > 0 ? count : std::int64_t{config_.train.eval_microbatches} * b;
    const data::Portions portions(source, *most, b);
    for (std::int64_t i = 0; i < portions.size(); ++i) portions_.push_back({&source, portions[i]});
    sequences_ += portions.sequences();
    available_ += count;
  }

  const Config& config_;
  std::vector<std::unique_ptr<data::Source>> sources_;
  std::vector<Portion> portions_;
  std::int64_t sequences_ = 0, available_ = 0;
};

// Bytes of every token's text; empty if the data's tokenizer is unknown.
std::vector<std::int64_t> token_bytes(const ModelSource& source) {
  const DataConfig& data = source.config.data;
  std::vector<std::int64_t> bytes;
  if (!source.has_tokenizer) return bytes;
  for (const Corpus& corpus : data.validation) {
    const bool text = corpus.path != "synthetic" && !data::names_token_file(corpus.path);
    if (data.tokenizer == "bytes" && !text) return bytes;
  }
  const auto tokenizer = tokenizer::load_tokenizer(data.tokenizer);
  for (tokenizer::Id id = 0; id < tokenizer->vocab_size(); ++id) {
    std::string text;
    if (!tokenizer->is_special(id)) tokenizer->append_text(id, /*first=*/false, text);
    bytes.push_back(std::ssize(text));
  }
  return bytes;
}

// Accumulates the last stage's outputs.
class Tally {
 public:
  explicit Tally(const ModelSource& source)
      : head_(architecture::head_of(source.config.model)), confusion_(source.config.model.num_labels) {
    if (head_ == ModelHead::CausalLm) token_bytes_ = token_bytes(source);
  }

  // `output`: the sum of losses for language models, else the prediction for each sequence.
  void add(const data::Batch& batch, const at::Tensor& output) {
    if (!architecture::is_sequence_head(head_)) return add_loss(batch, output);
    const at::Tensor predicted = output.to(at::kCPU, at::kFloat).contiguous();
    if (!predicted.isfinite().all().item<bool>())
      fail_run("the model's output is not finite; its weights contain NaN, inf or overflow");
    for (std::int64_t row = 0; row < predicted.size(0); ++row) {
      if (head_ == ModelHead::Classification)
        add_class(batch[Field::Labels][row].item<std::int64_t>(), row_of(predicted, row));
      else
        add_value(batch[Field::Values][row].item<double>(), row_of(predicted, row).front());
    }
  }

  Evaluation result() const {
    if (counted() == 0) fail_input("data.validation has nothing to compare with: no target, label or value");
    Evaluation result{.head = head_, .counted = counted()};
    result.loss = loss_ / static_cast<double>(counted());
    if (head_ == ModelHead::Classification) {
      result.accuracy = confusion_.accuracy();
      result.f1 = confusion_.f1();
      result.matthews = confusion_.matthews();
    } else if (head_ == ModelHead::Regression) {
      result.loss = mean_squared_error(truths_, predictions_);
      result.pearson = pearson(truths_, predictions_);
      result.spearman = spearman(truths_, predictions_);
    } else {
      result.perplexity = perplexity(result.loss);
      if (bytes_ > 0) result.bits_per_byte = bits_per_byte(loss_, static_cast<double>(bytes_));
    }
    return result;
  }

 private:
  std::int64_t counted() const { return head_ == ModelHead::Regression ? std::ssize(truths_) : counted_; }

  void add_loss(const data::Batch& batch, const at::Tensor& sum) {
    loss_ += sum.item<double>();
    counted_ += data::count_labels(batch);
    if (token_bytes_.empty()) return;
    const at::Tensor targets = batch[Field::Targets].contiguous();
    const auto* target = targets.const_data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < targets.numel(); ++i) {
      if (target[i] >= 0 && target[i] < std::ssize(token_bytes_))
        bytes_ += token_bytes_[static_cast<std::size_t>(target[i])];
    }
  }
  void add_class(std::int64_t label, std::span<const float> logits) {
    if (label < 0) return;
    loss_ += cross_entropy(logits, label);
    confusion_.add(label, greatest(logits));
    ++counted_;
  }
  void add_value(double value, float predicted) {
    if (std::isnan(value)) return;
    truths_.push_back(value);
    predictions_.push_back(predicted);
  }
  static std::span<const float> row_of(const at::Tensor& predicted, std::int64_t row) {
    const std::int64_t width = predicted.size(1);
    return {predicted.const_data_ptr<float>() + row * width, static_cast<std::size_t>(width)};
  }

  ModelHead head_;
  Confusion confusion_;
  std::vector<std::int64_t> token_bytes_;
  std::vector<double> truths_, predictions_;  // of regression
  std::int64_t counted_ = 0, bytes_ = 0;
  double loss_ = 0;
};

void evaluate_stage(const Stage& stage, const models::Model& model, const Microbatches& microbatches,
                    Tally& tally) {
  using transport::Tag;
  const BatchFields taken = architecture::taken_by(model.layers, stage.first_layer, stage.last_layer);
  const bool on_gpu = stage.compute.device().is_cuda();
  const bool has_labels = taken.has(Field::Labels) || taken.has(Field::Values);
  for (std::size_t i = 0; i < microbatches.size(); ++i) {
    const Tag tag{.kind = Tag::Kind::Evaluation, .index = static_cast<std::int64_t>(i)};
    const data::Batch batch = microbatches.read(i, taken, !on_gpu);
    models::MicrobatchContext pass{.batch = batch};
    if (has_labels) {  // outputs instead of the loss
      pass.batch[Field::Labels] = pass.batch[Field::Values] = at::Tensor();
    } else if (taken.has(Field::LossScale)) {
      pass.batch[Field::LossScale] = at::ones({1}, at::kDouble);
    }
    if (on_gpu) pass.batch = pass.batch.to(stage.compute.device());
    if (stage.from_after && tag.index >= transport::kEvaluatedAhead)
      stage.from_after->receive({.kind = Tag::Kind::Taken, .index = tag.index - transport::kEvaluatedAhead});
    models::Tensors x = stage.before ? stage.before->receive(tag) : models::Tensors();
    if (stage.to_before) stage.to_before->send({.kind = Tag::Kind::Taken, .index = tag.index}, {});
    x = models::run_layers(model, stage.first_layer, stage.last_layer, stage.parameters, std::move(x), pass);
    await(x);
    if (stage.is_last())
      tally.add(batch, x.front());
    else
      stage.after->send(tag, std::move(x));
  }
}

void check_tokens(const ModelSource& source) {
  const Config& config = source.config;
  const bool encodes = architecture::head_of(config.model) != ModelHead::CausalLm;
  if (encodes && !source.has_tokenizer && !is_synthetic(config.data.validation))
    fail_input("'{}' has no tokenizer; give data.tokenizer=FOLDER", source.folder);
  Config evaluated = config;
  evaluated.data.train = {{.path = "synthetic"}};  // the training data may be gone
  runtime::check_tokenizer(evaluated);
}

}  // namespace

Evaluation evaluate(const ModelSource& source) {
  const models::Model model = models::build(source.config.model);
  check_weights(source, model);
  check_tokens(source);
  const Microbatches microbatches(source);
  const BatchFields taken = architecture::taken_by(model.layers, 0, model.size());
  for (const Field field : architecture::kFields) {
    if (field == Field::LossScale || !taken.has(field) || microbatches.fields().has(field)) continue;
    fail_input("the model reads {} of its data, which data.validation does not have",
               architecture::name(field));
  }
  Tally tally(source);
  run_stages(source, model, [&](Stage& stage) { evaluate_stage(stage, model, microbatches, tally); });
  Evaluation result = tally.result();
  result.sequences = microbatches.sequences();
  result.available = microbatches.available();
  result.sampled =
      source.sample && result.available != result.sequences && !is_synthetic(source.config.data.validation);
  return result;
}

}  // namespace twobw::inference
