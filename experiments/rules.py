#!/usr/bin/env python3
"""Variants of the prediction rule, emulated in plain PyTorch on one GPU.

A pipeline of d stages is emulated one batch after the other: a stage computes on its own weights, and what it predicts
from is the part of the gradient that it would hold. So a variant costs a few lines here, before it is built into the
schedule. The rule itself is twobw's `pipeline.predict`; tests/python/pytorch_loop_test.py compares that.

    experiments/rules.py --data enwik8-24m.gz --row predicted --row mixed:from=4 --seed 0 --updates 2000

Prints one JSON object a row. A row is a rule with options:

    flush                              gradients on W(j)
    delayed                            on W(j-1): the paper's 2BW
    predicted[:early=H,clip=C,tie=T]   on P(j), from the first k_r - H microbatches
    mixed:from=Q                       the first Q microbatches of a batch on P(j), the others on W(j)

clip: last (factor of the last update), none (1), own (of the predicted gradient's own norm);
tie: own (each end predicts from its own part), sum (from both parts);
replicas=W, sum=all|own: microbatches are dealt to W replicas, each predicts from the sum of all or its own part.
"""
import argparse
import gzip
import json
import math
import time

import torch
from torch.nn import functional as F


class Model:
    """A GPT over one flat buffer of bf16 weights. The tied head has a copy of its own, as on the last stage."""

    def __init__(self, layout, flat, heads, layers):
        self.heads, self.layers = heads, layers
        self.parameters = {name: flat[at:at + math.prod(shape)].view(shape).requires_grad_()
                           for name, (at, shape, _, _) in layout.items()}

    def loss(self, tokens, targets):
        p = self.parameters
        batch, context = tokens.shape
        x = F.embedding(tokens, p["embedding"]) + p["position"][:context]
        width = x.shape[-1]
        for i in range(self.layers):
            q = f"{i}."
            h = F.layer_norm(x, (width,), p[q + "norm1.w"], p[q + "norm1.b"])
            h = F.linear(h, p[q + "qkv.w"], p[q + "qkv.b"])
            h = h.view(batch, context, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
            h = F.scaled_dot_product_attention(*h, is_causal=True).transpose(1, 2).reshape(x.shape)
            x = x + F.linear(h, p[q + "out.w"], p[q + "out.b"])
            h = F.layer_norm(x, (width,), p[q + "norm2.w"], p[q + "norm2.b"])
            h = F.gelu(F.linear(h, p[q + "up.w"], p[q + "up.b"]), approximate="tanh")
            x = x + F.linear(h, p[q + "down.w"], p[q + "down.b"])
        x = F.layer_norm(x, (width,), p["norm.w"], p["norm.b"])
        logits = F.linear(x, p["head"])
        return F.cross_entropy(logits.float().view(-1, logits.shape[-1]), targets.reshape(-1))


def layout_of(width, layers, context, stages, tied):
    """name -> (offset, shape, stage, decays), in the order of the stages."""
    layout, at = {}, 0

    def add(name, shape, stage, decays=True):
        nonlocal at
        layout[name] = (at, shape, stage, decays)
        at += math.prod(shape)

    add("embedding", (256, width), 0)
    add("position", (context, width), 0)
    for i in range(layers):
        stage = i * stages // layers
        for norm in ("norm1", "norm2"):
            add(f"{i}.{norm}.w", (width,), stage, False)
            add(f"{i}.{norm}.b", (width,), stage, False)
        for name, out, into in (("qkv", 3 * width, width), ("out", width, width), ("up", 4 * width, width),
                                ("down", width, 4 * width)):
            add(f"{i}.{name}.w", (out, into), stage)
            add(f"{i}.{name}.b", (out,), stage, False)
    add("norm.w", (width,), stages - 1, False)
    add("norm.b", (width,), stages - 1, False)
    add("head", (256, width), stages - 1)
    return layout, at


class Emulation:
    def __init__(self, a, rule, options, seed):
        self.a, self.rule, self.options = a, rule, options
        torch.manual_seed(seed)
        self.replicas = int(options.get("replicas", 1))
        self.layout, self.size = layout_of(a.width, a.layers, a.context, a.stages, not a.untied)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        flat = lambda: torch.zeros(self.size, device=self.device)
        self.w, self.m1, self.m2, self.g = flat(), flat(), flat(), flat()
        self.decay = flat()
        for name, (at, shape, _, decays) in self.layout.items():
            part = self.w[at:at + math.prod(shape)]
            if name.endswith("norm.w") or "norm" in name and name.endswith(".w"):
                part.fill_(1)
            elif len(shape) == 2:
                std = 0.02 / math.sqrt(2 * a.layers) if name.endswith(("out.w", "down.w")) else 0.02
                part.copy_(torch.randn(part.numel()) * std)
            self.decay[at:at + math.prod(shape)] = a.decay if decays else 0
        self.tie = None
        if not a.untied:
            e, h = self.layout["embedding"][0], self.layout["head"][0]
            self.tie = (slice(e, e + 256 * a.width), slice(h, h + 256 * a.width))
            self.w[self.tie[1]] = self.w[self.tie[0]]
        kind = torch.bfloat16 if self.device == "cuda" else torch.float32
        # One set of predicted weights per group with the same prediction, and one of true weights.
        self.own = options.get("sum", "all") == "own"
        self.compute = [self.w.to(kind, copy=True) for _ in range((self.replicas if self.own else 1) + 1)]
        self.models = [Model(self.layout, flat, a.heads, a.layers) for flat in self.compute]
        self.stage_of = torch.empty(self.size, dtype=torch.int64, device=self.device)
        for at, shape, stage, _ in self.layout.values():
            self.stage_of[at:at + math.prod(shape)] = stage
        self.slices = []
        for stage in range(a.stages):
            where = [(at, math.prod(shape)) for at, shape, s, _ in self.layout.values() if s == stage]
            self.slices.append(slice(where[0][0], where[-1][0] + where[-1][1]))
        self.applied, self.last_scale = 0, 0.0 if a.clip > 0 else 1.0
        self.graphs = {}
        self.early = int(options.get("early", 0))
        self.k = [max(1, a.microbatches - (a.stages - r) + 1 - self.early) for r in range(a.stages)]
        if rule == "flush":
            self.switch = 0  # microbatches of a batch that run on P
        elif rule == "mixed":
            self.switch = int(options["from"])
        else:
            self.switch = a.microbatches
        self.cuts = sorted({0, a.microbatches, self.switch, *([] if rule in ("flush", "delayed") else self.k)})

    def accumulate(self, model, into, tokens, share):
        """Adds the gradient of `tokens`' mean loss times `share`; one graph a shape."""
        key = (id(model), into.data_ptr(), tokens.shape[0], share)

        def work(static):
            loss = model.loss(static[:, :-1], static[:, 1:])
            grads = torch.autograd.grad(loss * share, list(model.parameters.values()))
            views = [into[at:at + math.prod(shape)].view(shape) for at, shape, _, _ in self.layout.values()]
            torch._foreach_add_(views, [g.float() for g in grads])
            return loss

        if self.device == "cpu":
            return work(tokens)
        if key not in self.graphs:
            static = tokens.clone()
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            kept = into.clone()
            with torch.cuda.stream(side):
                for _ in range(2):
                    work(static)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                loss = work(static)
            into.copy_(kept)
            self.graphs[key] = (graph, static, loss)
        graph, static, loss = self.graphs[key]
        static.copy_(tokens)
        graph.replay()
        return loss

    def direction(self, gradient, m1, m2, step):
        b1, b2 = self.a.betas
        m1 = torch.lerp(gradient, m1, b1)
        m2 = b2 * m2 + (1 - b2) * gradient * gradient
        mean = m1 / (1 - b1 ** step)
        return mean / ((m2 / (1 - b2 ** step)).sqrt() + 1e-8), m1, m2

    def predict(self, model, parts, rate):
        """Into the compute weights `model`: W(j-1) + u(S(j-1), (m/k) c part)."""
        a = self.a
        scale = torch.empty(0)
        g = parts
        if self.tie and self.options.get("tie", "own") == "sum":
            g = g.clone()
            both = g[self.tie[0]] + g[self.tie[1]]
            g[self.tie[0]] = both
            g[self.tie[1]] = both
        clip = self.options.get("clip", "last")
        scale = self.last_scale
        if clip == "none":
            scale = 1.0
        elif clip == "own":
            norm = g.norm().item()
            scale = min(1.0, a.clip / (norm + 1e-6))
        u, _, _ = self.direction(g * scale, self.m1, self.m2, self.applied + 1)
        self.compute[model].copy_(self.w - rate * (u + self.decay * self.w))

    def train(self, data, order, rates):
        a = self.a
        parts = [torch.zeros_like(self.g) for _ in range(len(self.models) - 1)]
        own = [torch.zeros_like(self.g) for _ in range(len(self.models) - 1)] if self.own else None
        true = len(self.models) - 1
        for update, rate in enumerate(rates):
            batch = data[order[update]]  # (microbatches * replicas * b, context + 1)
            b = a.microbatch * self.replicas
            total = torch.zeros((), device=self.device)
            done = 0
            for begin, end in zip(self.cuts, self.cuts[1:]):
                on_true = begin >= self.switch
                if self.own:
                    for i in range(self.replicas):
                        rows = torch.cat([batch[k * b + i * a.microbatch:k * b + (i + 1) * a.microbatch]
                                          for k in range(begin, end)])
                        share = (end - begin) / a.microbatches / self.replicas
                        total += share * self.accumulate(self.models[true if on_true else i], own[i], rows, share)
                else:
                    share = (end - begin) / a.microbatches
                    total += share * self.accumulate(self.models[true if on_true else 0], self.g,
                                                     batch[begin * b:end * b], share)
                done = end
                if self.rule in ("predicted", "mixed"):
                    for r, k in enumerate(self.k):
                        if k == end:
                            for i, part in enumerate(parts):
                                source = own[i] * self.replicas if self.own else self.g
                                part[self.slices[r]] = source[self.slices[r]] * (a.microbatches / k)
            if self.own:
                self.g.copy_(sum(own))
                for o in own:
                    o.zero_()
            if self.rule in ("predicted", "mixed"):
                for i, part in enumerate(parts):
                    self.predict(i, part, rate)
            elif self.rule == "delayed":
                self.compute[0].copy_(self.w)
            # The true step.
            if self.tie:
                both = self.g[self.tie[0]] + self.g[self.tie[1]]
                self.g[self.tie[0]] = both
                self.g[self.tie[1]] = 0
            norm = self.g.norm()
            if self.tie:
                self.g[self.tie[1]] = self.g[self.tie[0]]
            scale = torch.clamp(a.clip / (norm + 1e-6), max=1.0) if a.clip > 0 else torch.ones_like(norm)
            u, self.m1, self.m2 = self.direction(self.g * scale, self.m1, self.m2, self.applied + 1)
            self.w -= rate * (u + self.decay * self.w)
            self.last_scale = scale
            self.applied += 1
            self.compute[true].copy_(self.w)
            self.g.zero_()
            if update % 200 == 199:
                print(f"# {self.rule} {self.options} update {update + 1} loss {total.item():.4f}", flush=True)
        return total.item()

    @torch.no_grad()
    def evaluate(self, data):
        total, count = 0.0, 0
        for rows in data.split(64):
            total += self.models[-1].loss(rows[:, :-1], rows[:, 1:]).item() * len(rows)
            count += len(rows)
        return total / count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--row", action="append", required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--updates", type=int, default=2000)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--stages", type=int, default=4)
    parser.add_argument("--microbatch", type=int, default=8)
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--warmup", type=int, default=100)
    parser.add_argument("--decay", type=float, default=0.1)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--betas", type=float, nargs=2, default=(0.9, 0.95))
    parser.add_argument("--untied", action="store_true")
    a = parser.parse_args()
    text = gzip.open(a.data).read() if a.data.endswith(".gz") else open(a.data, "rb").read()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    bytes_ = torch.frombuffer(bytearray(text), dtype=torch.uint8).to(device)
    rows_of = lambda part: part[:part.numel() // (a.context + 1) * (a.context + 1)].view(-1, a.context + 1).long()
    held_out = min(1_000_000, len(text) // 20)
    train, validation = rows_of(bytes_[:-held_out]), rows_of(bytes_[-held_out:])[:800]
    for row in a.row:
        rule, _, rest = row.partition(":")
        options = dict(item.split("=") for item in rest.split(",") if item)
        begin = time.time()
        emulation = Emulation(a, rule, options, a.seed)
        count = a.microbatch * a.microbatches * emulation.replicas
        generator = torch.Generator().manual_seed(1000 + a.seed)
        order = torch.randint(len(train), (a.updates, count), generator=generator).to(device)
        rates = [a.lr * min(1, (t + 1) / a.warmup) * 0.5 * (1 + math.cos(math.pi * t / a.updates))
                 for t in range(a.updates)]
        emulation.train(train, order, rates)
        print(json.dumps({"row": row, "seed": a.seed, "m": a.microbatches, "b": a.microbatch, "updates": a.updates,
                          "lr": a.lr, "untied": a.untied, "k": emulation.k,
                          "validation": round(emulation.evaluate(validation), 4),
                          "seconds": round(time.time() - begin, 1)}), flush=True)
        del emulation
        if device == "cuda":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
