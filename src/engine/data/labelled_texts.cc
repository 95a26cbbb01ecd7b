#include <algorithm>
#include <limits>

#include "core/base/config_values.h"
#include "core/base/error.h"
#include "engine/data/masking.h"
#include "engine/data/sources.h"
#include "planning/architecture/families.h"
#include "text/corpus/records.h"

namespace twobw::data {
namespace {

using tokenizer::Id;
using tokenizer::Tokenizer;

// The target of a text.
struct Target {
  std::int64_t label = 0;  // of classification
  double value = 0;        // of regression
};

// Truncates the longer text so that both fit into `room` tokens. If both exceed half of it, each keeps half
// and the longer one the odd token.
void shorten(const TextFrame& frame, std::vector<Id>& shorter, std::vector<Id>& longer, std::size_t room) {
  if (shorter.size() > longer.size()) return shorten(frame, longer, shorter, room);
  if (shorter.size() + longer.size() <= room) return;
  frame.cut(shorter, room / 2);
  frame.cut(longer, room - shorter.size());
}

class LabelledTexts final : public Examples {
 public:
  LabelledTexts(TextFrame frame, const ModelConfig& model)
      : frame_(std::move(frame)),
        context_(static_cast<std::size_t>(model.context)),
        target_field_(architecture::head_of(model) == ModelHead::Regression ? Field::Values : Field::Labels) {
  }

  void add(std::vector<Id> text, const Target& target) {
    frame_.cut(text, context_ - frame_.size(1));
    begin_example(text, target);
  }
  void add(std::vector<Id> text, std::vector<Id> second, const Target& target) {
    shorten(frame_, text, second, context_ - frame_.size(2));
    begin_example(text, target);
    append(second);
    append(frame_.after);
  }

  std::int64_t count() const override { return std::ssize(examples_); }
  BatchFields fields() const override {
    return {Field::Tokens, Field::TokenTypes, Field::Lengths, target_field_};
  }
  bool is_dense() const override { return true; }
  bool varies() const override { return true; }
  std::int64_t length(std::int64_t example) const override { return std::ssize(ids_of(example)); }
  std::string describe() const override { return fmt::format("({} rows)", count()); }

  void write(std::int64_t example, std::uint64_t, const BatchRow& row) const override {
    const auto ids = ids_of(example);
    const Example& of = examples_[static_cast<std::size_t>(example)];
    row.write(Field::Tokens, ids, frame_.pad);
    if (const auto types = row[Field::TokenTypes]; !types.empty()) {
      std::ranges::fill(types, 0);
      std::ranges::fill(types.first(ids.size()).subspan(of.first_part), 1);
    }
    std::ranges::fill(row[Field::Lengths], std::ssize(ids));
    std::ranges::fill(row[Field::Labels], of.target.label);
    std::ranges::fill(row.numbers(Field::Values), of.target.value);
  }

  std::int64_t shortest() const {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (std::int64_t i = 0; i < count(); ++i) least = std::min(least, length(i));
    return least;
  }
  std::int64_t greatest_label() const {
    return std::ranges::max(examples_, {}, [](const Example& of) { return of.target.label; }).target.label;
  }

 private:
  struct Example {
    std::size_t begin;       // in ids_; the end is the next one's begin
    std::size_t first_part;  // tokens of the first text and around it
    Target target;
  };

  void begin_example(const std::vector<Id>& text, const Target& target) {
    examples_.push_back({.begin = ids_.size(), .first_part = text.size() + frame_.size(1), .target = target});
    append(frame_.before);
    append(text);
    append(frame_.after);
  }
  void append(const std::vector<Id>& ids) { ids_.insert(ids_.end(), ids.begin(), ids.end()); }
  std::span<const Id> ids_of(std::int64_t example) const {
    const auto i = static_cast<std::size_t>(example);
    const std::size_t end = i + 1 < examples_.size() ? examples_[i + 1].begin : ids_.size();
    return std::span(ids_).subspan(examples_[i].begin, end - examples_[i].begin);
  }

  TextFrame frame_;
  std::size_t context_;
  Field target_field_;
  std::vector<Id> ids_;
  std::vector<Example> examples_;
};

// Index of a class name. Other labels may be numbers, unless a name is a number.
std::int64_t class_among(const std::vector<std::string>& classes, const std::string& label,
                         const std::string& place) {
  if (const auto found = std::ranges::find(classes, label); found != classes.end())
    return found - classes.begin();
  const auto number = parse_number<std::int64_t>(label);
  const auto is_number = [](const std::string& name) { return parse_number<std::int64_t>(name).has_value(); };
  if (!number || *number < 0 || *number >= std::ssize(classes) || std::ranges::any_of(classes, is_number))
    fail_input("'{}' is of class '{}', which data.classes has not", place, label);
  return *number;
}

std::int64_t class_of(const std::string& label, const Config& config, const std::string& place) {
  if (!config.data.classes.empty()) return class_among(config.data.classes, label, place);
  const auto number = parse_number<std::int64_t>(label);
  if (!number || *number < 0 || *number > std::numeric_limits<std::int32_t>::max()) {
    fail_input("'{}' is of class '{}'; it must be a whole number from 0 on, or data.classes must name it",
               place, label);
  }
  return *number;
}

Target target_of(const std::string& label, const Config& config, const std::string& place) {
  if (architecture::head_of(config.model) != ModelHead::Regression)
    return {.label = class_of(label, config, place)};
  const auto number = parse_number<double>(label);
  if (!number) fail_input("'{}' has the label '{}'; it must be a number", place, label);
  return {.value = *number};
}

bool has_pairs(const Config& config) {
  return config.data.pair != "none";
}

void check_frame(const Config& config, const Tokenizer& tokenizer, const TextFrame& frame) {
  const bool pairs = has_pairs(config);
  if (pairs && !TextFrame::separates(tokenizer)) {
    fail_input(
        "data.pair is '{}', but data.tokenizer '{}' has no [CLS] and [SEP], which two texts stand between",
        config.data.pair, config.data.tokenizer);
  }
  if (pairs && config.model.token_types < 2) {
    fail_input("model.token_types is {}, but with data.pair there are two; it must be at least 2",
               config.model.token_types);
  }
  const int texts = pairs ? 2 : 1;
  const int least = static_cast<int>(frame.size(texts)) + texts;  // a token per text
  if (config.model.context < least) {
    fail_input("model.context is {}; with the special tokens around {} it must be at least {}",
               config.model.context, pairs ? "two texts" : "a text", least);
  }
}

void read_rows(const std::string& path, const Config& config, const Tokenizer& tokenizer,
               LabelledTexts& texts) {
  std::vector<std::string> fields = {config.data.text, config.data.label};
  if (has_pairs(config)) fields.push_back(config.data.pair);
  corpus::RecordReader records(path, fields);
  const bool bare = TextFrame(tokenizer).size(1) == 0;
  while (const auto record = records.next()) {
    const Target target = target_of((*record)[1], config, records.place());
    std::vector<Id> text, second;
    tokenizer.encode((*record)[0], text);
    if (bare && text.empty())
      fail_input("'{}' has a text without a token; every text must have one", records.place());
    if (!has_pairs(config)) {
      texts.add(std::move(text), target);
      continue;
    }
    tokenizer.encode((*record)[2], second);
    texts.add(std::move(text), std::move(second), target);
  }
}

// Checks the texts against the model's configuration.
void check_texts(const std::string& key, const LabelledTexts& texts, const std::string& path,
                 const ModelConfig& model) {
  if (texts.count() == 0) fail_input("{} is '{}', which has no rows", key, path);
  if (const auto label = texts.greatest_label(); label >= model.num_labels) {
    fail_input("model.num_labels is {}, but {} '{}' has class {}; it must be at least {}", model.num_labels,
               key, path, label, label + 1);
  }
  if (!model.padding && texts.shortest() < model.context) {
    fail_input(
        "model.padding is false, but {} '{}' has sequences of {} tokens, less than model.context = {}; it "
        "must be true",
        key, path, texts.shortest(), model.context);
  }
}

}  // namespace

std::unique_ptr<Examples> open_labelled(const std::string& key, const std::string& path, const Config& config,
                                        const Tokenizer& tokenizer) {
  if (path == "synthetic") {
    fail_input("{} has synthetic among others; with model.head: {} it must be alone", key,
               name(architecture::head_of(config.model)));
  }
  TextFrame frame(tokenizer);
  check_frame(config, tokenizer, frame);
  auto texts = std::make_unique<LabelledTexts>(std::move(frame), config.model);
  try {
    read_rows(path, config, tokenizer, *texts);
  } catch (const InputError& error) {
    fail_input("{} is '{}': {}", key, path, error.what());
  }
  check_texts(key, *texts, path, config.model);
  return texts;
}

}  // namespace twobw::data
