// twobw generate: continues prompts.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>

#include "app/cli/engine/commands.h"
#include "app/inference/generation.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/output.h"
#include "engine/device/device.h"
#include "text/tokenizer/utf8.h"

namespace twobw::cli {
namespace {

struct GenerateOptions {
  std::string path, file;
  std::vector<std::string> settings, prompts, ids;
  inference::GenerationOptions of;
  std::optional<double> temperature, top_p, repetition_penalty;
  std::optional<int> top_k, tokens;
  bool json = false, ignores_ends = false;
};

void check_options(const GenerateOptions& options) {
  const auto check = [](bool holds, const char* option, const auto& value, const std::string& must) {
    if (!holds) fail_input("{} is {}; it must be {}", option, value, must);
  };
  constexpr int kMostTokens = inference::kMostTokens;
  if (const auto& given = options.tokens)
    check(*given >= 1 && *given <= kMostTokens, "--tokens (or --length)", *given,
          fmt::format("from 1 to {}", kMostTokens));
  constexpr double kMost = std::numeric_limits<double>::max();
  if (const auto& given = options.temperature)
    check(*given >= 0 && *given <= kMost, "--temperature", *given, "at least 0, and finite");
  if (const auto& given = options.top_k) check(*given >= 0, "--top-k", *given, "at least 0");
  if (const auto& given = options.top_p)
    check(*given > 0 && *given <= 1, "--top-p", *given, "above 0 and at most 1");
  if (const auto& given = options.repetition_penalty)
    check(*given > 0 && *given <= kMost, "--repetition-penalty", *given, "above 0, and finite");
  check(options.of.batch >= 1, "--batch", options.of.batch, "at least 1");
  for (const std::string& stop : options.of.stops) {
    if (stop.empty()) fail_input("--stop is empty; give the text to stop at");
  }
  const int kinds =
      (options.prompts.empty() ? 0 : 1) + (options.ids.empty() ? 0 : 1) + (options.file.empty() ? 0 : 1);
  if (kinds > 1) fail_input("give prompts by one of --prompt, --ids and --prompts");
}

std::vector<inference::GivenPrompt> given_prompts(const GenerateOptions& options) {
  if (!options.file.empty()) return inference::read_prompts(options.file);
  std::vector<inference::GivenPrompt> given;
  for (const std::string& text : options.prompts) given.push_back({.text = text});
  for (const std::string& text : options.ids) given.push_back(inference::parse_ids(text));
  if (given.empty()) given.emplace_back();
  return given;
}

std::vector<inference::Prompt> encode(const std::vector<inference::GivenPrompt>& given,
                                      const tokenizer::Tokenizer* tokenizer, const std::string& folder) {
  std::vector<inference::Prompt> prompts;
  for (const inference::GivenPrompt& prompt : given) {
    if (!prompt.ids.empty()) {
      prompts.push_back({.ids = prompt.ids});
      continue;
    }
    if (tokenizer == nullptr) {
      fail_input("'{}' has no tokenizer; give data.tokenizer=FOLDER, or tokens by --ids instead of text",
                 folder);
    }
    prompts.push_back(inference::encode_prompt(*tokenizer, prompt.text));
  }
  return prompts;
}

std::string prompt_text(const inference::GivenPrompt& given, const tokenizer::Tokenizer* tokenizer) {
  if (given.ids.empty()) return given.text;
  if (tokenizer == nullptr) return fmt::format("{}", fmt::join(given.ids, " "));
  return tokenizer->decode(std::vector<tokenizer::Id>(given.ids.begin(), given.ids.end()));
}

Json line_of(const inference::GivenPrompt& given, const inference::Generated& generated, bool has_text) {
  Json line;
  if (given.ids.empty()) {
    line["prompt"] = tokenizer::replace_invalid(given.text);
  } else {
    line["prompt_ids"] = given.ids;
  }
  if (has_text) line["text"] = generated.text;
  line["ids"] = generated.ids;
  line["finish"] = std::string(name(generated.finish));
  return line;
}

// Prints the text of a single prompt as it comes, and of several prompts as each is done.
class Printer {
 public:
  Printer(const std::vector<inference::GivenPrompt>& given, const tokenizer::Tokenizer* tokenizer, bool json)
      : given_(given), tokenizer_(tokenizer), json_(json) {}

  inference::GenerationEvents events() {
    inference::GenerationEvents events;
    events.on_done = [this](std::size_t i, const inference::Generated& generated) { done(i, generated); };
    if (streams()) events.on_text = [this](std::size_t, const std::string& piece) { stream(piece); };
    return events;
  }

 private:
  bool streams() const { return !json_ && given_.size() == 1 && tokenizer_ != nullptr; }

  void begin(std::size_t i) {
    if (!json_) fmt::print("{}{}", prompt_text(given_[i], tokenizer_), tokenizer_ == nullptr ? " " : "");
  }
  void stream(const std::string& piece) {
    if (!began_) begin(0);
    began_ = true;
    fmt::print("{}", piece);
    flush_output();
  }
  void done(std::size_t i, const inference::Generated& generated) {
    if (json_) {
      fmt::print("{}\n", line_of(given_[i], generated, tokenizer_ != nullptr).dump());
    } else {
      if (!began_) begin(i);
      if (tokenizer_ == nullptr) {
        fmt::print("{}", fmt::join(generated.ids, " "));
      } else if (!streams()) {
        fmt::print("{}", generated.text);
      }
      fmt::print("{}\n", i + 1 < given_.size() ? "\n" : "");
    }
    flush_output();
  }

  const std::vector<inference::GivenPrompt>& given_;
  const tokenizer::Tokenizer* tokenizer_;
  bool json_;
  bool began_ = false;  // to stream
};

// Fills options that the command line leaves open from the model's files.
void take_defaults(const inference::GenerationFiles& files, GenerateOptions& options) {
  inference::Sampling& sampling = options.of.sampling;
  if (!options.ignores_ends) options.of.ends = files.ends;
  options.of.tokens = options.tokens.value_or(files.tokens.value_or(options.of.tokens));
  sampling.temperature = options.temperature.value_or(files.temperature.value_or(sampling.temperature));
  sampling.top_k = options.top_k.value_or(files.top_k.value_or(sampling.top_k));
  sampling.top_p = options.top_p.value_or(files.top_p.value_or(sampling.top_p));
  sampling.repetition_penalty =
      options.repetition_penalty.value_or(files.repetition_penalty.value_or(sampling.repetition_penalty));
  if (files.unsupported.empty()) return;
  fmt::print(stderr, "twobw: generation_config.json asks for {}, which generate does not do\n",
             fmt::join(files.unsupported, ", "));
}

// Null, with a note, if the tokenizer cannot be read and all prompts are ids.
std::unique_ptr<tokenizer::Tokenizer> open_tokenizer(const inference::ModelSource& source,
                                                     const GenerateOptions& options) {
  const bool needed = options.ids.empty() || !options.of.stops.empty();
  try {
    return inference::load_tokenizer(source);
  } catch (const InputError& error) {
    if (needed) throw;
    fmt::print(stderr, "twobw: generating without a tokenizer: {}\n", error.what());
    return nullptr;
  }
}

void generate(GenerateOptions& options) {
  check_options(options);
  const std::vector<inference::GivenPrompt> given = given_prompts(options);
  const inference::ModelSource source = inference::find_model(options.path, options.settings);
  const auto tokenizer = open_tokenizer(source, options);
  if (!options.of.stops.empty() && tokenizer == nullptr)
    fail_input("--stop needs a tokenizer, and '{}' has none; give data.tokenizer=FOLDER", source.folder);
  take_defaults(inference::read_generation_files(source, tokenizer.get()), options);
  const std::vector<inference::Prompt> prompts = encode(given, tokenizer.get(), source.folder);
  device::initialize();
  Printer printer(given, tokenizer.get(), options.json);
  inference::generate(source, tokenizer.get(), prompts, options.of, printer.events());
}

}  // namespace

void add_generate(CLI::App& command, int&) {
  auto options = std::make_shared<GenerateOptions>();
  inference::Sampling& sampling = options->of.sampling;
  command.add_option("model", options->path, "A run, a checkpoint, or a Hugging Face folder")->required();
  command.add_option("settings", options->settings,
                     "[key.path=value ...], for instance pipeline.stages, devices and train.precision; see "
                     "docs/reference/configuration.md");
  command.add_option("--prompt", options->prompts, "Text to continue; may be repeated")
      ->allow_extra_args(false);
  command.add_option("--ids", options->ids, "Tokens to continue, such as 12,7,345; may be repeated")
      ->allow_extra_args(false);
  command.add_option("--prompts", options->file,
                     "A file of prompts, one per line; in .jsonl the field prompt (or ids)");
  command.add_option("--tokens,--length", options->tokens,
                     "Tokens to generate per prompt, at most (default: max_new_tokens of "
                     "generation_config.json, else 300)");
  command.add_option("--temperature", options->temperature,
                     "0: the likeliest token (default: that of generation_config.json, else 0.8)");
  command.add_option(
      "--top-k", options->top_k,
      "Sample from the k likeliest tokens; 0: all (default: that of generation_config.json, else 0)");
  command.add_option("--top-p", options->top_p,
                     "Sample from the likeliest tokens with this total probability (default: that of "
                     "generation_config.json, else 1)");
  command.add_option("--repetition-penalty", options->repetition_penalty,
                     "Above 1: makes tokens of the text less likely (default: that of "
                     "generation_config.json, else 1)");
  command.add_option("--stop", options->of.stops, "Text to stop before; may be repeated")
      ->allow_extra_args(false);
  command.add_flag("--ignore-end", options->ignores_ends, "Keep generating past end-of-text tokens");
  command.add_option("--seed", sampling.seed, "Seed of the sampling")->capture_default_str();
  command.add_option("--batch", options->of.batch, "Prompts computed together; does not change the texts")
      ->capture_default_str();
  command.add_flag("--json", options->json, "Print a line of JSON for each prompt");
  command.callback([options] { generate(*options); });
}

}  // namespace twobw::cli
