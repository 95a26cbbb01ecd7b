#include "cli/commands.h"

namespace twobw::cli {
namespace {

constexpr Command kCommands[] = {
    {"train", "Train a model as a pipeline, from a configuration",
     "twobw train configs/default.yaml train.updates=50", "train as the file says, but stop sooner",
     add_train, /*in_processes=*/true},
    {"compare", "Train under flush and under 2bw, over several seeds, and compare loss and time",
     "twobw compare configs/default.yaml --updates 600", "see what 2bw gains in time and costs in loss",
     add_compare},
    {"verify", "Train pipeline and serial oracle side by side and compare bit for bit",
     "twobw verify configs/verify.yaml", "compare a pipeline with the serial run, bit by bit", add_verify,
     /*in_processes=*/true},
    {"profile", "Measure the layers of a model on this machine, for plan --profile",
     "twobw profile configs/default.yaml", "measure the layers on this machine, for plan --profile",
     add_profile},
    {"plan", "Choose stages, replicas and microbatches for given hardware",
     "twobw plan configs/default.yaml --explain", "cut the model up for this machine, and say why so",
     add_plan},
    {"topology", "Describe this machine, or the hosts of a launcher's processes, for plan --cluster",
     "twobw topology --output cluster.yaml", "describe this machine, for plan --cluster", add_topology,
     /*in_processes=*/true},
    {"schedule", "Draw, list or check the order of work of every stage", "twobw schedule 2bw --stages 4",
     "draw what every stage does, and when", add_schedule},
    {"simulate", "Model how fast a schedule runs and what its stages wait for",
     "twobw simulate flush --stages 8 --step 2", "model how fast it runs, and what stages wait for",
     add_simulate},
    {"tokenizer", "Train, show or use a tokenizer",
     "twobw tokenizer train --out tokens corpus/python.train.txt", "learn a byte-level BPE", add_tokenizer},
    {"prepare", "Turn text, jsonl and tsv files into token files",
     "twobw prepare docs --tokenizer tokens --out data/docs", "make docs-train.bin and .idx, and validation",
     add_prepare},
    {"inspect", "Show what a token file holds", "twobw inspect data/docs-train.idx --tokenizer tokens",
     "count its tokens and decode samples", add_inspect},
    {"batches", "Write what a run trains on as tensors, for another training loop",
     "twobw batches configs/default.yaml --updates 20 --out batches.safetensors",
     "save the tokens and targets of the first updates", add_batches},
    {"checkpoint", "List, verify, show or compare the checkpoints of a run",
     "twobw checkpoint verify runs/default", "compare every checksum of a run's checkpoints", add_checkpoint},
    {"eval", "Evaluate a trained model: loss, perplexity, accuracy and the like", "twobw eval runs/default",
     "what a model is worth on its validation data", add_eval, /*in_processes=*/false, /*yields_cores=*/true},
    {"generate", "Continue prompts with a trained model", "twobw generate runs/default",
     "write text with a trained model", add_generate, /*in_processes=*/false, /*yields_cores=*/true},
    {"export", "Write a trained model as Hugging Face's transformers reads it",
     "twobw export runs/default runs/exported", "make a folder for from_pretrained", add_export},
    {"embed", "Turn every text of a file into a vector, by a BERT",
     "twobw embed minilm --texts lines.txt --out vectors.jsonl", "write the embedding of every line",
     add_embed, /*in_processes=*/false, /*yields_cores=*/true},
};

}  // namespace

std::span<const Command> commands() {
  return kCommands;
}

}  // namespace twobw::cli
