"""examples/gmlp: a family that src/ does not know is trained, verified and planned like any other.

The training follows a loop in plain PyTorch, in double, from the same weights and the same batches: losses, gradient
norms, and how far every tensor moved.
"""
import json
import pathlib
import subprocess

import torch
from safetensors.torch import load_file

import gmlp
from support import ROOT, TINY, Run, TestCase, program, reference, relative_error, twobw, words

LOSS_TOLERANCE = 1e-5  # of each update's loss and gradient norm, relative
MOVE_TOLERANCE = 1e-2  # of W(20) - W(0), ||ours - theirs|| / ||theirs||: gains near 1 round by a thousandth of it

MODEL = {**TINY, "model.family": "gmlp", "model.hidden": 96, "model.dropout": 0}
PLAIN = {
    "pipeline.stages": 2,
    "pipeline.microbatches": 3,
    "optimizer.name": "sgd",
    "optimizer.momentum": 0,
    "optimizer.lr": 1,
    "optimizer.weight_decay": 0,
    "optimizer.clip": 1000,
    "optimizer.warmup": 0,
    "optimizer.decay": "constant",
    "train.updates": 20,
    "train.eval_every": 20,
}


class GmlpTest(TestCase):
    def setUp(self):
        super().setUp()
        self.binary = pathlib.Path(program("TWOBW_BINARY", "twobw")).parent / "twobw_gmlp"
        if not self.binary.exists():
            self.skipTest(f"{self.binary.name} is not built: TWOBW_EXAMPLES is off")

    def gmlp(self, *arguments, code=0):
        process = subprocess.run([self.binary, *map(str, arguments)], capture_output=True, text=True, timeout=120,
                                 cwd=self.folder)
        self.assertEqual(process.returncode, code, process.stderr + process.stdout)
        return process

    def trained(self, name, settings):
        folder = self.folder / name
        self.gmlp("train", *words({**MODEL, **settings, "run_dir": folder}))
        weights = load_file(folder / "model" / "model.safetensors")
        return Run(folder), {key: tensor.double() for key, tensor in weights.items()}

    def batches(self, settings):
        """(tokens, targets) of every update; data do not depend on the family."""
        updates, m = settings["train.updates"], settings["pipeline.microbatches"]
        file = self.folder / "batches"
        reference("batches", updates * m, file, *words({**TINY, **settings, "model.family": "gpt"}))
        tensors = load_file(file)
        for update in range(updates):
            yield [torch.cat([tensors[f"{field}.{update * m + k}"] for k in range(m)]).long()
                   for field in ("tokens", "targets")]

    def test_training_is_that_of_a_pytorch_loop(self):
        _, initial = self.trained("initial", {**PLAIN, "train.updates": 1, "optimizer.lr": 0})
        run, ours = self.trained("run", PLAIN)
        weights = {name: tensor.clone().requires_grad_() for name, tensor in initial.items()}
        for line, (tokens, targets) in zip(run.updates, self.batches(PLAIN), strict=True):
            loss = gmlp.loss(weights, tokens, targets)
            gradients = torch.autograd.grad(loss, list(weights.values()))
            norm = torch.cat([gradient.flatten() for gradient in gradients]).norm().item()
            self.assertLess(abs(line["loss"] / loss.item() - 1), LOSS_TOLERANCE)
            self.assertLess(abs(line["grad_norm"] / norm - 1), LOSS_TOLERANCE)
            with torch.no_grad():
                for weight, gradient in zip(weights.values(), gradients):
                    weight -= PLAIN["optimizer.lr"] * gradient
        self.assertEqual(set(ours), set(weights))
        for name, weight in weights.items():
            moved = weight.detach() - initial[name]
            self.assertGreater(moved.norm().item(), 0, name)
            self.assertLess(relative_error(ours[name] - initial[name], moved), MOVE_TOLERANCE, name)

    def test_validation_loss_is_that_of_pytorch(self):
        run, weights = self.trained("run", {**PLAIN, "model.tied": "false", "train.eval_microbatches": 1})
        sequences = TINY["pipeline.microbatch"]
        reference("sequences", sequences, self.folder / "sequences", *words({**TINY, **PLAIN, "model.family": "gpt"}))
        tensors = load_file(self.folder / "sequences")
        loss = gmlp.loss(weights, tensors["tokens"].long(), tensors["targets"].long()).item()
        self.assertLess(abs(run.validations[-1]["validation_loss"] / loss - 1), LOSS_TOLERANCE)

    def test_pipelines_equal_the_serial_oracle(self):
        for settings in ({"pipeline.schedule": "2bw", "pipeline.stages": 3, "pipeline.split": "[2, 3, 3]"},
                         {"pipeline.schedule": "flush", "pipeline.stages": 2, "pipeline.replicas": 2}):
            with self.subTest(**settings):
                self.assertIn("equal to the serial oracle, bit for bit",
                              self.gmlp("verify", *words({**MODEL, **settings, "pipeline.microbatches": 6})).stdout)

    def test_a_modelled_plan_trains(self):
        plan = json.loads(self.gmlp("plan", *words(MODEL), "--stages", 2, "--batch", 8, "--json").stdout)
        self.assertTrue(plan["modelled"])
        self.gmlp("plan", *words({**MODEL, "run_dir": "run"}), "--stages", 2, "--batch", 8, "--write", "run.yaml")
        self.gmlp("train", "run.yaml", "train.updates=2")
        run = Run(self.folder / "run")
        self.assertEqual(len(run.updates), 2)
        self.assertEqual(sum(run.summary["split"]), 8)  # embedding, 2 x (up, gate, down), head
        # Without decoding steps: each token recomputes the whole sequence.
        generated = json.loads(self.gmlp("generate", "run", "--ids", "1,2", "--tokens", 3, "--json").stdout)
        self.assertEqual(len(generated["ids"]), 3)

    def test_its_configuration_is_sound(self):
        synthetic = {"data.train": "synthetic", "data.validation": "synthetic", "run_dir": self.folder / "run"}
        quick = {"train.updates": 1, "train.eval_every": 0, "model.layers": 1}
        self.gmlp("train", ROOT / "examples/gmlp/gmlp.yaml", *words({**synthetic, **quick}))

    def test_wrong_keys_are_refused(self):
        for key, value in (("model.dropout", 0.1), ("model.hidden", 33), ("model.head", "classification"),
                           ("model.kv_heads", 2)):
            sentence = self.gmlp("train", *words({**MODEL, key: value}), code=2).stderr
            self.assertIn(f"{key} is {value}; ", sentence)
        process = twobw("train", *words(MODEL), cwd=self.folder)
        self.assertEqual(process.returncode, 2)
        self.assertIn("model.family is 'gmlp'; allowed: gpt, llama, bert", process.stderr)
