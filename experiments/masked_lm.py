#!/usr/bin/env python3
"""Masked-LM training of a small BERT on WikiText-2: `twobw train` in two stages under flush against a loop around
transformers in double precision, from the same weights, batches and masks.

    .venv/bin/python experiments/masked_lm.py WIKITEXT TOKENIZER [--updates N] [--out FOLDER]

WIKITEXT is a text (train.txt of WikiText-2), TOKENIZER the folder of BERT's vocab.txt. The first weights are random and
saved by transformers; `twobw batches` writes what the run trains on. Prints the losses of both, and fails where one
differs by more than 1e-5 of itself. A minute or two on two cores.
"""
import argparse
import json
import math
import pathlib
import shutil
import subprocess
import sys

import torch
from safetensors.torch import load_file
from transformers import BertConfig, BertForMaskedLM

from minilm import ROOT, twobw

TOLERANCE = 1e-5
MICROBATCHES = 4
SETTINGS = {
    "model.context": 64, "pipeline.schedule": "flush", "pipeline.stages": 2, "pipeline.microbatch": 4,
    "pipeline.microbatches": MICROBATCHES, "optimizer.lr": 1e-3, "optimizer.betas": "[0.9,0.95]",
    "optimizer.weight_decay": 0.1, "optimizer.clip": 1, "optimizer.warmup": 5, "train.eval_every": 0,
}


def save_random_model(folder, vocab):
    torch.manual_seed(0)
    # A token of padding would be left out of their embedding's gradient; the text has none.
    config = BertConfig(vocab_size=vocab, hidden_size=128, intermediate_size=512, num_hidden_layers=4,
                        num_attention_heads=4, max_position_embeddings=128, hidden_dropout_prob=0.0,
                        attention_probs_dropout_prob=0.0, pad_token_id=None)
    BertForMaskedLM(config).save_pretrained(folder)


def loop(folder, batches, updates):
    """(loss, norm of the gradient) of every update."""
    model = BertForMaskedLM.from_pretrained(folder, attn_implementation="eager").double().train()
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in parameters if p.dim() == 2], "weight_decay": SETTINGS["optimizer.weight_decay"]},
         {"params": [p for p in parameters if p.dim() != 2], "weight_decay": 0.0}], betas=(0.9, 0.95), eps=1e-8)
    lr, warmup = SETTINGS["optimizer.lr"], SETTINGS["optimizer.warmup"]
    for t in range(updates):
        total = 0
        for k in range(MICROBATCHES):
            tokens, types, lengths, targets, scale = (
                batches[f"{name}.{t}.{k}"] for name in ("tokens", "token_types", "lengths", "targets", "loss_scale"))
            real = torch.arange(tokens.shape[1]) < lengths.unsqueeze(1)
            logits = model(tokens, attention_mask=real.long(), token_type_ids=types).logits
            loss = scale[0] * torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(),
                                                                ignore_index=-100, reduction="sum")
            loss.backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(parameters, SETTINGS["optimizer.clip"]).item()
        progress = (t - warmup) / (updates - warmup)
        for group in optimizer.param_groups:
            group["lr"] = lr * ((t + 1) / warmup if t < warmup else (1 + math.cos(math.pi * progress)) / 2)
        optimizer.step()
        optimizer.zero_grad()
        yield total, norm


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=pathlib.Path, help="train.txt of WikiText-2")
    parser.add_argument("tokenizer", type=pathlib.Path, help="folder with vocab.txt")
    parser.add_argument("--updates", type=int, default=20, help="(default: 20)")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "runs" / "experiment-masked-lm")
    arguments = parser.parse_args()
    out, updates = arguments.out, arguments.updates
    if updates <= SETTINGS["optimizer.warmup"]:
        sys.exit(f"--updates must be above {SETTINGS['optimizer.warmup']}")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)

    save_random_model(out / "model", len((arguments.tokenizer / "vocab.txt").read_text().splitlines()))
    twobw("prepare", arguments.text, "--tokenizer", arguments.tokenizer, "--out", out / "text", "--validation", 0,
          "--no-eot", "--split", "blank-lines")
    settings = {**SETTINGS, "model.from": out / "model", "train.updates": updates, "data.train": out / "text-train",
                "data.validation": out / "text-train", "data.tokenizer": arguments.tokenizer}
    words = [f"{key}={value}" for key, value in settings.items()]
    twobw("batches", *words, "--updates", updates, "--out", out / "batches.safetensors")
    twobw("train", *words, f"run_dir={out / 'run'}", stdout=subprocess.DEVNULL)
    lines = [json.loads(line) for line in (out / "run" / "metrics.jsonl").read_text().splitlines()]
    lines = [line for line in lines if "loss" in line]

    print("update  loss, twobw  transformers  difference  norm, difference (both relative)")
    worst = 0
    for t, (loss, norm) in enumerate(loop(out / "model", load_file(out / "batches.safetensors"), updates)):
        off, norm_off = abs(lines[t]["loss"] / loss - 1), abs(lines[t]["grad_norm"] / norm - 1)
        worst = max(worst, off)
        print(f"{t + 1:>6}  {lines[t]['loss']:>11.6f}  {loss:>12.6f}  {off:>10.1e}  {norm_off:>16.1e}", flush=True)
    good = worst < TOLERANCE and len(lines) == updates
    print(f"greatest difference of a loss: {worst:.1e}, {'as' if good else 'NOT as'} it must be (below {TOLERANCE:g})")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
