// twobw embed: one vector for each text of a file.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "base/error.h"
#include "cli/commands.h"
#include "corpus/texts.h"
#include "device/cpu.h"
#include "train/text_embedder.h"

namespace twobw::cli {
namespace {

struct EmbedArguments {
  std::string folder, texts, out, pool = "mean", field = "text";
  train::EmbedOptions options;
};

void embed(EmbedArguments arguments) {
  for (const models::Pooling pooling : models::all_poolings()) {
    if (name(pooling) == arguments.pool) arguments.options.pooling = pooling;
  }
  train::check_embeddings_path("--out", arguments.out);
  device::initialize();
  const train::TextEmbedder embedder(arguments.folder, arguments.options);
  const std::vector<std::string> texts = corpus::read_texts(arguments.texts, arguments.field);
  if (texts.empty()) fail_input("--texts is '{}', which has no text", arguments.texts);
  const at::Tensor embeddings = embedder.embed(texts);
  train::write_embeddings(arguments.out, embeddings);
  fmt::print("{} texts in {}, {} numbers each\n", texts.size(), arguments.out, embeddings.size(1));
}

std::vector<std::string> pooling_names() {
  std::vector<std::string> names;
  for (const models::Pooling pooling : models::all_poolings()) names.emplace_back(name(pooling));
  return names;
}

}  // namespace

void add_embed(CLI::App& command, int& exit_code) {
  auto arguments = std::make_shared<EmbedArguments>();
  command
      .add_option("folder", arguments->folder,
                  "A BERT in Hugging Face's layout: a folder, a run or a checkpoint")
      ->required();
  command
      .add_option("--texts", arguments->texts, "One text a line; or tsv or jsonl, by its name, see --field")
      ->required();
  command.add_option("--out", arguments->out, "FILE.safetensors, tensor `embeddings`; or FILE.jsonl")
      ->required();
  command
      .add_option("--pool", arguments->pool, "Of a text's tokens: their mean, the first ([CLS]) or the last")
      ->check(CLI::IsMember(pooling_names()))
      ->capture_default_str();
  command.add_flag("--normalize", arguments->options.normalize, "Every vector to a length of 1");
  command
      .add_option("--context", arguments->options.context,
                  "Tokens of a text that count; 0: as many as the model has positions")
      ->check(CLI::NonNegativeNumber);
  command.add_option("--batch", arguments->options.batch, "Texts computed at a time")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command.add_option("--field", arguments->field, "Field of jsonl with the text, or column of tsv")
      ->capture_default_str();
  command.add_option("--tokenizer", arguments->options.tokenizer,
                     "Another tokenizer than the folder's: a folder or a file");
  command.callback([arguments, &exit_code] {
    embed(*arguments);
    exit_code = 0;
  });
}

}  // namespace twobw::cli
