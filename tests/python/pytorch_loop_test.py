"""Whole runs of `twobw train` against loops in plain PyTorch, from the same weights and the same batches.

The loops compute in double with torch.optim's optimizers. They run no pipeline: the delayed one keeps old weights
by their number and looks up the one that the rule of the paper names; the predicting one lets every stage take an
optimizer's step ahead on a copy, with the gradients that the rule says it has by then, and goes over to the true
weights within the batch where the rule says so.
"""
import copy
import json
import math

import torch
from safetensors.torch import load_file

import gpt
import llama
from support import FULL, TINY, TestCase, reference, relative_error, slow, words

LOSS_TOLERANCE = 1e-5  # of each update's loss and gradient norm, relative
WEIGHT_TOLERANCE = 1e-4  # of each final tensor, ||ours - theirs|| / ||theirs||
SIGN_TOLERANCE = 2e-3  # the same under lion, which moves an element that rounds to the other side of 0 the other way

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
PREDICTED = {"pipeline.schedule": "2bw", "pipeline.stages": 2, "pipeline.split": "[6,6]"}
PAPER = {"pipeline.schedule": "2bw", "pipeline.stages": 2, "pipeline.predict": "false"}
SGD = {"optimizer.name": "sgd", "optimizer.momentum": 0.8, "optimizer.lr": 0.1}
LION = {"optimizer.name": "lion", "optimizer.lr": 3e-4}
LAMB = {"optimizer.name": "lamb", "optimizer.lr": 3e-2, "optimizer.clip": 1.0}
MUON = {"optimizer.name": "muon", "optimizer.momentum": 0.9}
LLAMA = {"model.family": "llama", "model.kv_heads": 2, "model.hidden": 48, "optimizer.clip": 1.1}
SYNC_START = {"pipeline.sync_updates": 2}


class DecoupledSGD(torch.optim.SGD):
    """SGD whose decay goes past the momentum: w -= lr (decay w + buffer)."""

    def __init__(self, groups, momentum):
        groups = [{"params": group["params"], "decay": group["weight_decay"]} for group in groups]
        super().__init__(groups, lr=0.0, momentum=momentum)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    weight.mul_(1 - group["lr"] * group["decay"])
        super().step()


class Lion(torch.optim.Optimizer):
    """w -= lr (decay w + sign(b1 m + (1 - b1) g)), m = b2 m + (1 - b2) g."""

    def __init__(self, groups, betas):
        groups = [{"params": group["params"], "decay": group["weight_decay"]} for group in groups]
        super().__init__(groups, {"lr": 0.0, "betas": betas})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                moment = self.state[weight].setdefault("moment", torch.zeros_like(weight))
                sign = (b1 * moment + (1 - b1) * weight.grad).sign()
                weight.sub_(group["lr"] * (group["decay"] * weight + sign))
                moment.mul_(b2).add_(weight.grad, alpha=1 - b2)


class Lamb(torch.optim.Optimizer):
    """r = Adam's direction + decay w; w -= lr |w|/|r| r; without decay w -= lr r."""

    def __init__(self, groups, betas):
        groups = [{"params": group["params"], "decay": group["weight_decay"]} for group in groups]
        super().__init__(groups, {"lr": 0.0, "betas": betas})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                state = self.state[weight]
                n = state["n"] = state.get("n", 0) + 1
                m = state["m"] = b1 * state.get("m", 0) + (1 - b1) * weight.grad
                v = state["v"] = b2 * state.get("v", 0) + (1 - b2) * weight.grad**2
                r = (m / (1 - b1**n)) / ((v / (1 - b2**n)).sqrt() + 1e-8)
                trust = 1.0
                if group["decay"] > 0:
                    r = r + group["decay"] * weight
                    trust = weight.norm() / r.norm()
                weight.sub_(group["lr"] * trust * r)


class Muon:
    """AdamW, but for matrices between hidden activations w -= lr (decay w + 0.2 sqrt(larger side) O(g + mu m))."""

    def __init__(self, groups, hidden, betas, momentum):
        self.adamw = torch.optim.AdamW(groups, betas=betas, eps=1e-8)
        decay = groups[0]["weight_decay"]
        self.hidden = list(hidden)
        self.parts = list(hidden.values())  # the rows of each matrix inside a packed one
        self.moments = [torch.zeros_like(weight) for weight in self.hidden]
        self.decay, self.mu = decay, momentum
        self.param_groups = self.adamw.param_groups

    @staticmethod
    def orthogonal(matrix):
        x = matrix / (matrix.norm() + 1e-7)
        x = x.T if matrix.shape[0] > matrix.shape[1] else x
        for _ in range(5):
            a = x @ x.T
            x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
        return x.T if matrix.shape[0] > matrix.shape[1] else x

    @torch.no_grad()
    def step(self):
        self.adamw.step()
        lr = self.param_groups[0]["lr"]
        for i, weight in enumerate(self.hidden):
            if weight.grad is None:
                continue
            self.moments[i] = self.mu * self.moments[i] + weight.grad
            ahead = (weight.grad + self.mu * self.moments[i]).split(self.parts[i])
            turned = torch.cat([0.2 * math.sqrt(max(part.shape)) * self.orthogonal(part) for part in ahead])
            weight.sub_(lr * (self.decay * weight + turned))

    def zero_grad(self):
        self.adamw.zero_grad()
        for weight in self.hidden:
            weight.grad = None


# Which parameters a layer has, by the beginnings of their names.
BLOCK = (("attention.norm.", "attention.qkv."), ("attention.out.",), ("mlp.norm.", "mlp.up.", "mlp.gate_up."), (),
         ("mlp.down.",))


def parameters_by_layer(blocks):
    layers = [("embedding.",)]
    for block in range(blocks):
        layers += [tuple(f"blocks.{block}.{name}" for name in names) for names in BLOCK]
    return [*layers, ("head.",)]


class Loop:
    def __init__(self, settings, initial, batches):
        self.s = settings
        self.m = settings["pipeline.microbatches"]
        self.w = settings.get("pipeline.replicas", 1)
        self.clip = settings["optimizer.clip"] or math.inf
        self.weights = {name: weight.double().requires_grad_() for name, weight in initial.items()}
        self.batches = {name: tokens.long() for name, tokens in batches.items()}
        self.losses, self.norms = [], []
        self.errors = {}  # by update: how far predictions of the weights that it made missed, over their step

        matrices = [weight for weight in self.weights.values() if weight.dim() == 2]
        others = [weight for weight in self.weights.values() if weight.dim() != 2]
        groups = [
            {"params": matrices, "weight_decay": settings["optimizer.weight_decay"]},
            {"params": others, "weight_decay": 0.0},
        ]
        if settings.get("optimizer.name") == "sgd":
            self.optimizer = DecoupledSGD(groups, momentum=settings["optimizer.momentum"])
        elif settings.get("optimizer.name") == "lion":
            self.optimizer = Lion(groups, betas=(0.9, 0.95))
        elif settings.get("optimizer.name") == "lamb":
            self.optimizer = Lamb(groups, betas=(0.9, 0.95))
        elif settings.get("optimizer.name") == "muon":
            hidden = {
                weight: self.matrices(name, len(weight))
                for name, weight in self.weights.items()
                if name.startswith("blocks.") and weight.dim() == 2
            }
            groups[0]["params"] = [weight for weight in matrices if not any(weight is other for other in hidden)]
            self.optimizer = Muon(groups, hidden, betas=(0.9, 0.95), momentum=settings["optimizer.momentum"])
        else:
            self.optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8)

    def matrices(self, name, rows):
        """The rows of the matrices that a parameter between hidden activations consists of."""
        if name.endswith("gate_up.weight"):
            return 2 * [rows // 2]
        if not name.endswith("qkv.weight"):
            return [rows]
        heads, kv_heads = self.heads()
        return [rows * count // (heads + 2 * kv_heads) for count in (heads, kv_heads, kv_heads)]

    def heads(self):
        return self.s["model.heads"], self.s.get("model.kv_heads", self.s["model.heads"])

    def loss(self, weights, tokens, targets):
        if self.s.get("model.family") == "llama":
            return llama.loss(weights, *self.heads(), tokens, targets)
        return gpt.loss(weights, self.s["model.heads"], tokens, targets)

    def learning_rate(self, t):
        s = self.s
        lr, warmup, floor = s["optimizer.lr"], s["optimizer.warmup"], s["optimizer.min_lr"]
        if t < warmup:
            return lr * (t + 1) / warmup
        progress = (t - warmup) / (s["train.updates"] - warmup)
        return lr * (floor + (1 - floor) * (1 + math.cos(math.pi * progress)) / 2)

    def batch(self, weights_of, t):
        """Adds the gradient of batch t to the .grad of the weights that each microbatch runs on, first microbatch of
        every replica, second, ..., and says after each how many that were. Notes the loss."""
        total, count = 0.0, self.w * self.m
        for i in range(self.m):
            weights = weights_of(i)
            for k in range(t * count + i, (t + 1) * count, self.m):
                tokens, targets = self.batches[f"tokens.{k}"], self.batches[f"targets.{k}"]
                loss = self.loss(weights, tokens, targets)
                (loss / count).backward()
                total += loss.item() / count
            yield i + 1
        self.losses.append(total)

    def backward(self, weights, t):
        for _ in self.batch(lambda i: weights, t):
            pass

    def step(self, t):
        """Clips and takes the optimizer's step with the .grad of the weights."""
        norm = torch.nn.utils.clip_grad_norm_(self.weights.values(), self.clip)
        self.norms.append(norm.item())
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate(t)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def run(self):
        if self.s["pipeline.schedule"] != "2bw":
            self.run_plain()
        elif self.s.get("pipeline.predict") == "false":
            self.run_delayed()
        else:
            self.run_predicted()

    def run_plain(self):
        for t in range(self.s["train.updates"]):
            self.backward(self.weights, t)
            self.step(t)

    @torch.no_grad()
    def copy(self):
        return {name: weight.clone() for name, weight in self.weights.items()}

    def run_delayed(self):
        """W(t+1) = W(t) + u, its gradient taken on version t-1."""
        start = self.s.get("pipeline.sync_updates", 0)
        versions = {0: self.copy()}
        for t in range(self.s["train.updates"]):
            stale = {name: w.clone().requires_grad_() for name, w in versions[t if t <= start else t - 1].items()}
            self.backward(stale, t)
            for name, weight in self.weights.items():
                weight.grad = stale[name].grad
            self.step(t)
            versions[t + 1] = self.copy()

    def stages(self):
        """For each stage the names of the tensors that it computes with, and how many of a batch's m microbatches
        it predicts from. Where head and embedding are tied but apart, the head computes with a copy."""
        split = json.loads(self.s["pipeline.split"])
        d, e = len(split), self.s.get("pipeline.extra", 0)
        layers = parameters_by_layer(self.s["model.layers"])
        assert sum(split) == len(layers)
        names = [*self.weights, *(["head.weight"] if d > 1 and "head.weight" not in self.weights else [])]
        stages = []
        for r in range(d):
            begin = sum(split[:r])
            parts = sum(layers[begin : begin + split[r]], ())
            in_flight = d - r + (math.ceil(e * (d - 1 - r) / (d - 1)) if d > 1 else 0)
            k = self.m - in_flight + 1
            stages.append(([n for n in names if n.startswith(parts)], k if self.w == 1 else max(1, k - 1)))
        assert sorted(sum((own for own, _ in stages), [])) == sorted(names)
        return stages

    def true_name(self, name):
        return name if name in self.weights else "embedding.tokens"

    def predict(self, own, gradients, ratio, c, t):
        """What a stage expects its tensors to be after update t: a step of the optimizer on copies of the weights and
        of its state, with the gradients given."""
        weights, optimizer = copy.deepcopy((self.weights, self.optimizer))
        for group in optimizer.param_groups:
            group["lr"] = self.learning_rate(t)
        for name in own:
            weights[self.true_name(name)].grad = ratio * c * gradients[name]
        optimizer.step()
        return {name: weights[self.true_name(name)].detach() for name in own}

    def run_predicted(self):
        """W(t+1) as in a plain loop, but for the weights that its gradient is taken on: in the first microbatches P(t),
        which every stage predicts of W(t) when it has the gradients of the first k microbatches of batch t-1."""
        start = self.s.get("pipeline.sync_updates", 0)
        stages = self.stages()
        c = 0.0 if self.clip < math.inf else 1.0
        fill = len(stages) - 1 + self.s.get("pipeline.extra", 0) if len(stages) > 1 else 0
        slack = self.s.get("pipeline.step_slack", 1)
        alone = len(stages) * self.w == 1
        first_true = max(1, fill + slack) if 2 * fill + slack <= self.m and not alone else self.m
        predicted = None
        for t in range(self.s["train.updates"]):
            now = self.copy()
            true = {name: now[self.true_name(name)].clone().requires_grad_() for own, _ in stages for name in own}
            guess = {name: weight.clone().requires_grad_() for name, weight in predicted.items()} if t > start else true

            def gradient(name):
                parts = [weights[name].grad for weights in ([true] if guess is true else [guess, true])]
                return sum(part for part in parts if part is not None)

            predicted = {}
            for count in self.batch(lambda i: guess if i < first_true else true, t):
                for own, k in stages:
                    if k == count:
                        partly = {name: gradient(name).clone() for name in own}
                        predicted |= self.predict(own, partly, self.m / k, c, t)
            for name, weight in self.weights.items():
                weight.grad = gradient(name)
            if len(true) > len(self.weights):
                self.weights["embedding.tokens"].grad += gradient("head.weight")
            self.step(t)
            c = min(1.0, self.clip / self.norms[-1])
            kept = [name for own, k in stages if k < self.m for name in own]  # the last stage keeps one version
            if t >= start and kept:
                self.errors[t] = self.distance(predicted, kept, self.copy()) / self.distance(predicted, kept, now)

    def distance(self, predicted, names, weights):
        return math.sqrt(sum((predicted[n] - weights[self.true_name(n)]).square().sum().item() for n in names))


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
        # The replicas' microbatches are numbered through, like those of one that has them all.
        together = settings["pipeline.microbatches"] * settings.get("pipeline.replicas", 1)
        one = {**settings, "pipeline.replicas": 1, "pipeline.microbatches": together}
        reference("initial", self.folder / "initial", *words(one))
        reference("batches", settings["train.updates"] * together, self.folder / "batches", *words(one))
        return Loop(settings, load_file(self.folder / "initial"), load_file(self.folder / "batches"))

    def compare(self, changes):
        weight_tolerance = SIGN_TOLERANCE if changes.get("optimizer.name") == "lion" else WEIGHT_TOLERANCE
        loop = self.loop(changes)
        loop.run()
        settings = loop.s
        run = self.train(settings)

        if settings["optimizer.clip"] > 0:
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
            self.assertLess(error, weight_tolerance, name)

    def test_the_error_of_predictions(self):
        """Measured at every twentieth batch, of the stages that keep predicted and true weights."""
        for slack in (1, 5) if FULL else (1,):
            with self.subTest(slack=slack):
                loop = self.loop({**PREDICTED, "pipeline.step_slack": slack, "train.updates": 42})
                loop.run()
                run = self.train(loop.s, name=f"slack{slack}")
                found = {line["update"]: line["prediction_error"] for line in run.updates if "prediction_error" in line}
                self.assertEqual(list(found), [20, 40])
                for update, error in found.items():
                    self.assertTrue(0.05 < error < 2, error)
                    self.assertLess(abs(error / loop.errors[update - 1] - 1), 1e-3)

    @slow
    def test_the_loops_differ(self):
        """The delay, the prediction and what it is made from, and the synchronous start change the losses by far more
        than is tolerated, so none of them can be missing unnoticed."""
        seen = []
        for changes in (
            FLUSH,
            PREDICTED,
            {**PREDICTED, "pipeline.extra": 1},
            {**PREDICTED, "pipeline.split": "[11,1]"},
            {**PREDICTED, "pipeline.sync_updates": 2},
            PAPER,
            {**PAPER, **SYNC_START},
        ):
            loop = self.loop(changes)
            loop.run()
            for other in seen:
                gap = max(abs(a / b - 1) for a, b in zip(loop.losses, other))
                self.assertGreater(gap, 30 * LOSS_TOLERANCE, changes)
            seen.append(loop.losses)


THREE_STAGES = {**PREDICTED, "pipeline.stages": 3, "pipeline.split": "[4,4,4]"}
QUICK = {
    "flush_with_untied_weights": {**FLUSH, "model.tied": "false"},
    "predicted_with_muon_and_a_llama": {**PREDICTED, **MUON, **LLAMA},
    "predicted_with_sgd_and_a_synchronous_start": {**PREDICTED, **SGD, "pipeline.sync_updates": 2},
    # Two stages of k = 1 and 2 of 3 microbatches, one fewer than a single replica has.
    "predicted_with_replicas": {**PREDICTED, "pipeline.replicas": 2, "optimizer.clip": 1.2},
    "predicted_with_true_weights_at_the_end": {**THREE_STAGES, "pipeline.microbatches": 6, "optimizer.clip": 1.2},
    "paper_with_a_synchronous_start": {**PAPER, **SYNC_START},
}
SLOW = {
    "flush": {**FLUSH, "pipeline.stages": 1},
    "flush_with_sgd": {**FLUSH, **SGD, "pipeline.stages": 1},
    "flush_with_lion": {**FLUSH, **LION},
    "flush_with_lamb": {**FLUSH, **LAMB},
    "flush_with_muon": {**FLUSH, **MUON},
    "predicted": PREDICTED,  # two of three microbatches on P, the last on W
    "predicted_in_every_microbatch": {**PREDICTED, "pipeline.step_slack": 2},
    "predicted_without_slack": {**PREDICTED, "pipeline.step_slack": 0},
    "predicted_without_clipping": {**PREDICTED, "optimizer.clip": 0},
    "predicted_with_lamb": {**PREDICTED, **LAMB},
    "predicted_with_lion": {**PREDICTED, **LION},
    "predicted_with_muon": {**PREDICTED, **MUON},
    "predicted_with_untied_weights_and_an_extra": {**PREDICTED, "model.tied": "false", "pipeline.extra": 1},
    "predicted_on_one_stage": {**PREDICTED, "pipeline.stages": 1, "pipeline.split": "[12]"},
    "predicted_on_stages_cut_inside_blocks": THREE_STAGES,
    "paper": PAPER,
    "paper_with_sgd_and_a_synchronous_start": {**PAPER, **SYNC_START, **SGD},
}
for _name, _changes in {**QUICK, **SLOW}.items():
    _test = (lambda changes: lambda self: self.compare(changes))(_changes)
    setattr(PytorchLoopTest, f"test_{_name}", slow(_test) if _name in SLOW else _test)
