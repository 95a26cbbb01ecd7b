"""Whole runs of `twobw train` against loops in plain PyTorch, from the same weights and the same batches.

The loops compute in double with torch.optim's optimizers. They know of no stages: the delayed one keeps old
weights by their number and looks up the one that the rule of 2BW names.
"""
import math
import unittest

import torch
from safetensors.torch import load_file

import gpt
from support import TINY, TestCase, reference, relative_error, words

LOSS_TOLERANCE = 1e-5  # of each update's loss and gradient norm, relative
WEIGHT_TOLERANCE = 1e-4  # of each final tensor, ||ours - theirs|| / ||theirs||

SETTINGS = {
    **TINY,
    "pipeline.microbatches": 3,
    "optimizer.clip": 1.5,
    "optimizer.weight_decay": 0.2,
    "optimizer.warmup": 4,
    "optimizer.decay": "cosine",
    "optimizer.min_lr": 0.1,
    "train.updates": 20,
}
FLUSH = {"pipeline.schedule": "flush", "pipeline.stages": 2}
TWO_BW = {"pipeline.schedule": "2bw", "pipeline.stages": 2}
SGD = {"optimizer.name": "sgd", "optimizer.momentum": 0.8, "optimizer.lr": 0.1}
CURE = {"pipeline.sync_updates": 2, "optimizer.extrapolate_update": 0.5, "optimizer.extrapolate_weights": 1}


class DecoupledSGD(torch.optim.SGD):
    """SGD whose decay goes past the momentum: w -= lr (decay w + buffer)."""

    def __init__(self, groups, momentum):
        super().__init__([{"params": group["params"]} for group in groups], lr=0.0, momentum=momentum)
        self.decays = [group["weight_decay"] for group in groups]

    @torch.no_grad()
    def step(self):
        for group, decay in zip(self.param_groups, self.decays):
            for weight in group["params"]:
                weight.mul_(1 - group["lr"] * decay)
        super().step()


class Loop:
    def __init__(self, settings, initial, batches):
        self.s = settings
        self.m = settings["pipeline.microbatches"]
        self.weights = {name: weight.double().requires_grad_() for name, weight in initial.items()}
        self.batches = {name: tokens.long() for name, tokens in batches.items()}
        self.losses, self.norms = [], []

        matrices = [weight for weight in self.weights.values() if weight.dim() == 2]
        others = [weight for weight in self.weights.values() if weight.dim() != 2]
        groups = [
            {"params": matrices, "weight_decay": settings["optimizer.weight_decay"]},
            {"params": others, "weight_decay": 0.0},
        ]
        if settings.get("optimizer.name") == "sgd":
            self.optimizer = DecoupledSGD(groups, momentum=settings["optimizer.momentum"])
        else:
            self.optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8)

    def learning_rate(self, t):
        s = self.s
        lr, warmup, floor = s["optimizer.lr"], s["optimizer.warmup"], s["optimizer.min_lr"]
        if t < warmup:
            return lr * (t + 1) / warmup
        progress = (t - warmup) / (s["train.updates"] - warmup)
        return lr * (floor + (1 - floor) * (1 + math.cos(math.pi * progress)) / 2)

    def backward(self, weights, t):
        """Adds the gradient of batch t to weights' .grad and notes the loss."""
        total = 0.0
        for k in range(t * self.m, (t + 1) * self.m):
            loss = gpt.loss(weights, self.s["model.heads"], self.batches[f"tokens.{k}"], self.batches[f"targets.{k}"])
            (loss / self.m).backward()
            total += loss.item() / self.m
        self.losses.append(total)

    def step(self, t):
        """Clips and takes the optimizer's step with what is in the .grad of the weights."""
        norm = torch.nn.utils.clip_grad_norm_(self.weights.values(), self.s["optimizer.clip"])
        self.norms.append(norm.item())
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate(t)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def run(self):
        if self.s["pipeline.schedule"] == "2bw":
            self.run_delayed()
        else:
            self.run_plain()

    def run_plain(self):
        for t in range(self.s["train.updates"]):
            self.backward(self.weights, t)
            self.step(t)

    @torch.no_grad()
    def copy(self):
        return {name: weight.clone() for name, weight in self.weights.items()}

    def run_delayed(self):
        """W(t+1) = W(t) + applied, its gradient taken on what was to compute with at version t-1."""
        start = self.s.get("pipeline.sync_updates", 0)
        c = self.s.get("optimizer.extrapolate_update", 0.0)
        s = self.s.get("optimizer.extrapolate_weights", 0.0)
        compute = {0: self.copy()}
        before = None  # the optimizer's own update, one update ago
        for t in range(self.s["train.updates"]):
            stale = {name: w.clone().requires_grad_() for name, w in compute[t if t <= start else t - 1].items()}
            self.backward(stale, t)
            for name, weight in self.weights.items():
                weight.grad = stale[name].grad

            former = self.copy()
            self.step(t)
            update = {name: new - former[name] for name, new in self.copy().items()}
            correct = t > start and before is not None
            compute[t + 1] = {}
            for name, weight in self.weights.items():
                applied = update[name] + (c * (update[name] - before[name]) if correct else 0)
                weight.data = former[name] + applied
                compute[t + 1][name] = weight.data + (s * applied if t + 1 > start else 0)
            before = update


def without_key_bias(name, tensor):
    """The bias of the keys shifts all scores of a query alike, so softmax drops it: its gradient is nothing
    but rounding, which AdamW blows up to steps of full size. The other parts of the packed bias are compared."""
    if not name.endswith("qkv.bias"):
        return tensor
    query, _, value = tensor.chunk(3)
    return torch.cat([query, value])


class PytorchLoopTest(TestCase):
    def setUp(self):
        super().setUp()
        torch.set_num_threads(1)

    def loop(self, changes):
        settings = {**SETTINGS, **changes}
        count = settings["train.updates"] * settings["pipeline.microbatches"]
        reference("initial", self.folder / "initial", *words(settings))
        reference("batches", count, self.folder / "batches", *words(settings))
        return Loop(settings, load_file(self.folder / "initial"), load_file(self.folder / "batches"))

    def compare(self, changes):
        loop = self.loop(changes)
        loop.run()
        settings = loop.s
        run = self.train(settings)

        bites = sum(norm > 1.02 * settings["optimizer.clip"] for norm in loop.norms)
        self.assertTrue(3 <= bites <= len(loop.norms) - 3, f"the clip must matter now and then, not {bites} times")
        self.assertEqual(len(run.updates), settings["train.updates"])
        for t, line in enumerate(run.updates):
            self.assertEqual(line["update"], t + 1)
            self.assertAlmostEqual(line["lr"], loop.learning_rate(t), delta=1e-12)
            self.assertLess(abs(line["loss"] / loop.losses[t] - 1), LOSS_TOLERANCE, f"loss of update {t}")
            self.assertLess(abs(line["grad_norm"] / loop.norms[t] - 1), LOSS_TOLERANCE, f"norm of update {t}")
        weights = run.weights()
        self.assertEqual(set(weights), set(loop.weights))
        for name, expected in loop.weights.items():
            expected = without_key_bias(name, expected.detach())
            error = relative_error(without_key_bias(name, weights[name]), expected)
            self.assertLess(error, WEIGHT_TOLERANCE, name)

    def test_flush(self):
        self.compare({**FLUSH, "pipeline.stages": 1})

    def test_flush_with_two_stages_and_untied_weights(self):
        self.compare({**FLUSH, "model.tied": "false"})

    def test_flush_with_sgd(self):
        self.compare({**FLUSH, **SGD, "pipeline.stages": 1})

    def test_two_bw(self):
        self.compare(TWO_BW)

    def test_two_bw_with_a_synchronous_start_and_extrapolation(self):
        self.compare({**TWO_BW, **CURE})

    def test_two_bw_with_sgd_a_synchronous_start_and_extrapolation(self):
        self.compare({**TWO_BW, **CURE, **SGD})

    def test_the_loops_differ(self):
        """The delay, the synchronous start and each correction change the losses by far more than is
        tolerated, so none of them can be missing unnoticed."""
        seen = []
        for changes in (FLUSH, TWO_BW, *({**TWO_BW, key: CURE[key]} for key in CURE)):
            loop = self.loop(changes)
            loop.run()
            for other in seen:
                gap = max(abs(a / b - 1) for a, b in zip(loop.losses, other))
                self.assertGreater(gap, 30 * LOSS_TOLERANCE, changes)
            seen.append(loop.losses)


if __name__ == "__main__":
    unittest.main()
