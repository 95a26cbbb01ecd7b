#include "app/cli/program.h"

namespace twobw::cli {
namespace {

constexpr AddOptions kInEngine = nullptr;

constexpr Command kCommands[] = {
    {"Train", "train", "Train a model as a pipeline, from a configuration",
     "twobw train configs/default.yaml train.updates=50", "train as configured, for 50 updates", kInEngine,
     /*in_processes=*/true},
    {"Train", "compare", "Train under flush and under 2bw, over several seeds, and compare loss and time",
     "twobw compare configs/default.yaml --updates 600", "measure what 2bw gains in time and costs in loss",
     kInEngine},
    {"Train", "verify", "Train pipeline and serial oracle side by side and compare bit for bit",
     "twobw verify configs/verify.yaml", "compare a pipeline with the serial oracle, bit for bit", kInEngine,
     /*in_processes=*/true},
    {"Plan", "plan", "Choose stages, replicas and microbatches for given hardware",
     "twobw plan configs/default.yaml --explain", "partition the model for this machine and explain why",
     add_plan},
    {"Plan", "profile", "Measure the layers of a model on this machine, for plan --profile",
     "twobw profile configs/default.yaml", "measure the layers on this machine, for plan --profile",
     kInEngine},
    {"Plan", "topology", "Describe this machine, or the hosts of a launcher's processes, for plan --cluster",
     "twobw topology --output cluster.yaml", "describe this machine, for plan --cluster", add_topology,
     /*in_processes=*/true},
    {"Plan", "simulate", "Estimate the speed of a schedule and the idle time of its stages",
     "twobw simulate flush --stages 8 --step 2", "estimate its speed and the idle time of stages",
     add_simulate},
    {"Plan", "schedule", "Draw, list or check the order of work of every stage",
     "twobw schedule 2bw --stages 4", "draw what every stage does, and when", add_schedule},
    {"Data", "prepare", "Turn text, jsonl and tsv files into token files",
     "twobw prepare docs --tokenizer tokens --out data/docs", "make docs-train.bin and .idx, and validation",
     add_prepare},
    {"Data", "tokenizer", "Train, show or use a tokenizer",
     "twobw tokenizer train --out tokens corpus/python.train.txt", "learn a byte-level BPE", add_tokenizer},
    {"Data", "inspect", "Show statistics and samples of a token file",
     "twobw inspect data/docs-train.idx --tokenizer tokens", "count its tokens and decode samples",
     add_inspect},
    {"Data", "batches", "Write the batches of a run as tensors, for another training loop",
     "twobw batches configs/default.yaml --updates 20 --out batches.safetensors",
     "save the tokens and targets of the first updates", kInEngine},
    {"Models", "eval", "Evaluate a trained model: loss, perplexity, accuracy", "twobw eval runs/default",
     "loss and perplexity on the validation data", kInEngine, /*in_processes=*/false, /*yields_cores=*/true},
    {"Models", "generate", "Continue prompts with a trained model", "twobw generate runs/default",
     "write text with a trained model", kInEngine, /*in_processes=*/false, /*yields_cores=*/true},
    {"Models", "export", "Write a trained model in the format of Hugging Face transformers",
     "twobw export runs/default runs/exported", "make a folder for from_pretrained", kInEngine},
    {"Models", "embed", "Compute an embedding of every text of a file with a BERT",
     "twobw embed minilm --texts lines.txt --out vectors.jsonl", "write the embedding of every line",
     kInEngine, /*in_processes=*/false, /*yields_cores=*/true},
    {"Models", "checkpoint", "List, verify, show or compare the checkpoints of a run",
     "twobw checkpoint verify runs/default", "compare every checksum of a run's checkpoints", kInEngine},
};

}  // namespace

std::span<const Command> commands() {
  return kCommands;
}

}  // namespace twobw::cli
