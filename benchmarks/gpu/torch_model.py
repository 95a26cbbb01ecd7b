"""GPT-2, or BERT or Llama of transformers, in plain PyTorch on one GPU, as one would train it without twobw: fp32
parameters under bf16 autocast, PyTorch's attention, fused AdamW, clipping; eager or compiled.

    .venv/bin/python benchmarks/gpu/torch_model.py --model 124M --batch 64 --mode compile --steps 20

prints one JSON object: tokens a second (median over the rounds), peak bytes of tensors, the last loss. With --serve it
warms up once and then measures a round for every line it reads, so that contenders can take turns.
"""

import argparse
import json
import statistics
import sys
import time

import torch
from torch import nn

from shapes import MODELS


class Trainer:
    def __init__(self, shape, batch, microbatch, mode, device):
        torch.manual_seed(0)
        torch.set_float32_matmul_precision("high")
        if batch % microbatch:
            raise ValueError(f"a batch of {batch} is not made of microbatches of {microbatch}")
        self.device, self.microbatches, self.tokens_per_step = device, batch // microbatch, batch * shape.context
        with torch.device(device):
            self.model = shape.build()
            self.data = torch.randint(shape.vocab, (4, self.microbatches, microbatch, shape.context + 1))
        self.parameters = list(self.model.parameters())
        groups = [{"params": [p for p in self.parameters if p.dim() >= 2], "weight_decay": 0.1},
                  {"params": [p for p in self.parameters if p.dim() < 2], "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.95), fused=True)
        self.forward = torch.compile(self.model) if mode == "compile" else self.model
        self.steps = 0

    def step(self):
        """One update; returns its loss, on the device."""
        loss = 0.0
        for sequences in self.data[self.steps % len(self.data)]:
            with torch.autocast(self.device, dtype=torch.bfloat16):
                part = self.forward(sequences[:, :-1], sequences[:, 1:]) / self.microbatches
            part.backward()
            loss += part.detach()
        nn.utils.clip_grad_norm_(self.parameters, 1.0, foreach=True)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.steps += 1
        return loss

    def synchronize(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def warm_up(self, steps):
        for _ in range(steps):
            self.step()
        self.synchronize()

    def measure(self, steps):
        """The figures of one round of steps."""
        if self.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        self.synchronize()
        begin = time.perf_counter()
        for _ in range(steps):
            loss = self.step()
        self.synchronize()
        seconds = time.perf_counter() - begin
        return {"tokens_per_s": steps * self.tokens_per_step / seconds,
                "peak_bytes": torch.cuda.max_memory_allocated() if self.device == "cuda" else 0, "loss": loss.item()}

    def describe(self):
        name = torch.cuda.get_device_name() if self.device == "cuda" else "CPU"
        return {"device": name, "torch": torch.__version__, "cuda": torch.version.cuda}


def serve(trainer, steps):
    """Measures a round for every line of input; between rounds it gives back what memory it can to the others."""
    def release():
        if trainer.device == "cuda":
            torch.cuda.empty_cache()

    release()
    print(json.dumps(trainer.describe()), flush=True)
    for _ in sys.stdin:
        trainer.warm_up(2)
        result = trainer.measure(steps)
        release()
        print(json.dumps(result), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="124M")
    parser.add_argument("--batch", type=int, default=64, help="sequences an update")
    parser.add_argument("--microbatch", type=int, help="sequences at once (default: what fits for the model)")
    parser.add_argument("--mode", choices=("eager", "compile"), default="compile")
    parser.add_argument("--steps", type=int, default=20, help="updates a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warmup", type=int, default=3, help="updates before the first round")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--serve", action="store_true", help="measure a round for every line read")
    options = parser.parse_args()
    shape = MODELS[options.model]
    microbatch = options.microbatch or min(shape.microbatch, options.batch)
    trainer = Trainer(shape, options.batch, microbatch, options.mode, options.device)
    trainer.warm_up(options.warmup)
    if options.serve:
        return serve(trainer, options.steps)
    rounds = [trainer.measure(options.steps) for _ in range(options.rounds)]
    print(json.dumps({"model": options.model, "mode": options.mode, "batch": options.batch, "microbatch": microbatch,
                      "tokens_per_s": statistics.median(r["tokens_per_s"] for r in rounds),
                      "rounds": [r["tokens_per_s"] for r in rounds],
                      "peak_bytes": max(r["peak_bytes"] for r in rounds), "loss": rounds[-1]["loss"],
                      **trainer.describe()}))


if __name__ == "__main__":
    main()
