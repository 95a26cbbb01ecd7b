#include "app/cli/program.h"

namespace twobw::cli {
namespace {

constexpr AddOptions kInEngine = nullptr;

constexpr Command kCommands[] = {
    {"Train", "train", "Train or fine-tune a model as a pipeline",
     "twobw train configs/default.yaml train.updates=50", "train as configured, but for 50 updates",
     kInEngine,
     /*in_processes=*/true},
    {"Train", "compare", "Train under flush (1F1B) and under 2bw, and compare loss and time",
     "twobw compare configs/default.yaml --updates 600", "measure the time saved and the loss paid for it",
     kInEngine},
    {"Train", "verify", "Train next to a serial oracle and compare every weight, bit for bit",
     "twobw verify configs/verify.yaml", "prove a pipeline against one thread", kInEngine,
     /*in_processes=*/true},
    {"Plan", "plan", "Choose stages, replicas and microbatches for given hardware",
     "twobw plan configs/default.yaml --explain", "partition the model for this machine, with reasons",
     add_plan},
    {"Plan", "profile", "Measure the layers of a model on this machine, for plan --profile",
     "twobw profile configs/default.yaml", "write profile.json", kInEngine},
    {"Plan", "topology", "Describe this machine, or the hosts of a launcher, for plan --cluster",
     "twobw topology --output cluster.yaml", "write this machine as a cluster", add_topology,
     /*in_processes=*/true},
    {"Plan", "simulate", "Predict the throughput of a schedule and the idle time of its stages",
     "twobw simulate flush --stages 8 --step 2", "predict throughput and idle time", add_simulate},
    {"Plan", "schedule", "Draw, list or check the instructions of every stage",
     "twobw schedule 2bw --stages 4", "draw the instructions of every stage over time", add_schedule},
    {"Data", "prepare", "Tokenize text, jsonl and tsv files into token files",
     "twobw prepare docs --tokenizer tokens --out data/docs", "write docs-train.bin and .idx, and validation",
     add_prepare},
    {"Data", "tokenizer", "Train, show or apply a tokenizer",
     "twobw tokenizer train --out tokens corpus/python.train.txt", "learn a byte-level BPE", add_tokenizer},
    {"Data", "inspect", "Show statistics and samples of a token file",
     "twobw inspect data/docs-train.idx --tokenizer tokens", "count its tokens and decode samples",
     add_inspect},
    {"Data", "batches", "Write the batches of a run as tensors, for another training loop",
     "twobw batches configs/default.yaml --updates 20 --out batches.safetensors",
     "write tokens and targets of 20 updates", kInEngine},
    {"Models", "eval", "Evaluate a trained model: loss, perplexity, accuracy", "twobw eval runs/default",
     "loss and perplexity on the validation data", kInEngine, /*in_processes=*/false, /*yields_cores=*/true},
    {"Models", "generate", "Continue prompts with a trained model", "twobw generate runs/default",
     "write text with a trained model", kInEngine, /*in_processes=*/false, /*yields_cores=*/true},
    {"Models", "export", "Write a trained model in the format of Hugging Face transformers",
     "twobw export runs/default runs/exported", "write a folder for from_pretrained", kInEngine},
    {"Models", "checkpoint", "List, verify, show or compare the checkpoints of a run",
     "twobw checkpoint verify runs/default", "compare every checksum of a run's checkpoints", kInEngine},
    {"Models", "embed", "Compute one embedding per text with a BERT",
     "twobw embed minilm --texts lines.txt --out vectors.jsonl", "write the embedding of every line",
     kInEngine, /*in_processes=*/false, /*yields_cores=*/true},
    {"Setup", "config", "Print a configuration with all its defaults",
     "twobw config pipeline.stages=4 --json", "print every key of a run with four stages", add_config},
    {"Setup", "doctor", "Check devices, libraries, launchers and limits of this machine", "twobw doctor",
     "list problems and their remedies", add_doctor},
    {"Setup", "completion", "Print a completion script for bash or zsh", "twobw completion bash > twobw.bash",
     "a script for `source`: commands, options, keys", kInEngine},
};

}  // namespace

std::span<const Command> commands() {
  return kCommands;
}

}  // namespace twobw::cli
