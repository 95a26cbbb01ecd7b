#include "app/inference/generation.h"

#include <algorithm>
#include <span>

#include "app/inference/decoder.h"
#include "core/base/error.h"
#include "planning/architecture/families.h"

namespace twobw::inference {
namespace {

// A prompt and its continuation.
class Row {
 public:
  Row(std::size_t number, const Prompt& prompt, const GenerationOptions& options,
      const tokenizer::Tokenizer* tokenizer, const GenerationEvents& events)
      : number_(number), tokens_(prompt.ids), options_(options), events_(events) {
    if (tokenizer != nullptr) text_.emplace(*tokenizer, options.stops, prompt.is_empty);
  }

  bool is_active() const { return active_; }
  const std::vector<std::int64_t>& tokens() const { return tokens_; }
  std::int64_t length() const { return std::ssize(tokens_); }

  void choose(std::span<const float> logits) {
    const double random =
        uniform(options_.sampling.seed, static_cast<std::int64_t>(number_), std::ssize(tokens_));
    const std::int64_t token = choose_token(logits, tokens_, options_.sampling, random);
    tokens_.push_back(token);
    generated_.ids.push_back(token);
    if (std::ranges::find(options_.ends, token) != options_.ends.end()) return finish(Finish::End);
    if (text_) {
      show(text_->push(static_cast<tokenizer::Id>(token)));
      if (text_->stopped()) return finish(Finish::Stop);
    }
    if (std::ssize(generated_.ids) == options_.tokens) finish(Finish::Length);
  }

  Generated take() { return std::move(generated_); }

 private:
  void show(const std::string& piece) {
    if (piece.empty()) return;
    generated_.text += piece;
    if (events_.on_text) events_.on_text(number_, piece);
  }
  void finish(Finish how) {
    if (text_) show(text_->finish());
    generated_.finish = how;
    active_ = false;
  }

  std::size_t number_;
  std::vector<std::int64_t> tokens_;  // prompt and generated
  const GenerationOptions& options_;
  const GenerationEvents& events_;
  std::optional<TextStream> text_;
  Generated generated_;
  bool active_ = true;
};

std::span<const float> floats_of(const at::Tensor& logits) {
  return {logits.const_data_ptr<float>(), static_cast<std::size_t>(logits.numel())};
}

// A batch of rows.
class Group {
 public:
  Group(Decoder& decoder, std::vector<Row> rows, std::int64_t context, std::int64_t places)
      : decoder_(decoder), rows_(std::move(rows)), context_(context), places_(places) {}

  void run() {
    for (std::size_t i = 0; i < rows_.size(); ++i) begin(i);
    while (any_active()) {
      // Decided before a step adds tokens.
      std::vector<bool> slides;
      for (const Row& row : rows_) slides.push_back(row.is_active() && !steps(row));
      if (any_stepping()) step();
      for (std::size_t i = 0; i < rows_.size(); ++i) {
        if (slides[i]) recompute(rows_[i]);
      }
    }
  }

  std::vector<Row>& rows() { return rows_; }

 private:
  // Whether its last token fits into the cache.
  bool steps(const Row& row) const { return decoder_.can_step() && row.length() <= places_; }
  bool any_active() const {
    return std::ranges::any_of(rows_, [](const Row& row) { return row.is_active(); });
  }
  bool any_stepping() const {
    return std::ranges::any_of(rows_, [this](const Row& row) { return row.is_active() && steps(row); });
  }

  void begin(std::size_t i) {
    Row& row = rows_[i];
    if (decoder_.can_step()) {
      row.choose(floats_of(decoder_.begin(static_cast<std::int64_t>(i), row.tokens())));
    } else {
      recompute(row);
    }
  }

  void recompute(Row& row) {
    const std::vector<std::int64_t>& tokens = row.tokens();
    const std::ptrdiff_t count = std::min<std::ptrdiff_t>(context_, row.length());
    row.choose(floats_of(decoder_.whole({tokens.end() - count, tokens.end()})));
  }

  // Finished rows and rows beyond the cache are computed too, at a position of their own.
  std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>> last_tokens() const {
    std::vector<std::int64_t> tokens, seen;
    for (const Row& row : rows_) {
      tokens.push_back(row.tokens().back());
      seen.push_back(std::min(row.length(), places_) - 1);
    }
    return {tokens, seen};
  }

  void step() {
    auto [tokens, seen] = last_tokens();
    const at::Tensor logits = decoder_.step(std::move(tokens), std::move(seen));
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (rows_[i].is_active() && steps(rows_[i]))
        rows_[i].choose(floats_of(logits[static_cast<std::int64_t>(i)]));
    }
  }

  Decoder& decoder_;
  std::vector<Row> rows_;
  std::int64_t context_, places_;
};

void check_prompts(const ModelConfig& model, const std::vector<Prompt>& prompts) {
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const std::vector<std::int64_t>& ids = prompts[i].ids;
    const std::string which = prompts.size() == 1 ? "the prompt" : fmt::format("prompt {}", i + 1);
    if (ids.empty()) fail_input("{} has no tokens; give some text", which);
    for (const std::int64_t id : ids) {
      if (id < 0 || id >= model.vocab)
        fail_input("{} holds token {}; the model knows {} tokens", which, id, model.vocab);
    }
    if (std::ssize(ids) > model.context) {
      fail_input("{} has {} tokens; it must have at most {}, the model's context", which, ids.size(),
                 model.context);
    }
  }
}

void check_head(const ModelConfig& model) {
  if (const ModelHead head = architecture::head_of(model); head != ModelHead::CausalLm)
    fail_input("model.head is {}; only causal_lm generates text", name(head));
}

}  // namespace

std::string_view name(Finish finish) {
  constexpr std::string_view names[] = {"length", "stop", "end"};
  return names[static_cast<int>(finish)];
}

Prompt encode_prompt(const tokenizer::Tokenizer& tokenizer, const std::string& text) {
  std::vector<tokenizer::Id> ids = tokenizer.prefix();
  if (!text.empty()) {
    tokenizer.encode(text, ids);
  } else if (ids.empty() && tokenizer.special().eos) {
    ids = {*tokenizer.special().eos};
  } else if (ids.empty()) {
    tokenizer.encode("\n", ids);
  }
  return {.ids = {ids.begin(), ids.end()}, .is_empty = text.empty()};
}

std::vector<Generated> generate(const ModelSource& source, const tokenizer::Tokenizer* tokenizer,
                                const std::vector<Prompt>& prompts, const GenerationOptions& options,
                                const GenerationEvents& events) {
  const ModelConfig& config = source.config.model;
  check_head(config);
  check_prompts(config, prompts);
  const models::Model model = models::build(config);
  check_weights(source, model);
  std::int64_t places = 0;
  for (const Prompt& prompt : prompts)
    places = std::max<std::int64_t>(places, std::ssize(prompt.ids) + options.tokens);
  places = std::min<std::int64_t>(places, config.context);
  const std::size_t batch = std::min(prompts.size(), static_cast<std::size_t>(options.batch));

  std::vector<Generated> all;
  const auto lead = [&](Decoder& decoder) {
    for (std::size_t first = 0; first < prompts.size(); first += batch) {
      std::vector<Row> rows;
      for (std::size_t i = first; i < std::min(first + batch, prompts.size()); ++i)
        rows.emplace_back(i, prompts[i], options, tokenizer, events);
      Group group(decoder, std::move(rows), config.context, places);
      group.run();
      for (Row& row : group.rows()) {
        all.push_back(row.take());
        if (events.on_done) events.on_done(all.size() - 1, all.back());
      }
    }
    decoder.end();
  };
  run_stages(source, model, [&](Stage& stage) {
    Decoder decoder(stage, model, static_cast<std::int64_t>(batch), places);
    if (stage.is_last()) {
      lead(decoder);
    } else {
      decoder.follow();
    }
  });
  return all;
}

}  // namespace twobw::inference
