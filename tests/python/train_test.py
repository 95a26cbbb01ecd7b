"""`twobw train` from outside: the output of a run, its files and its end."""
import json
import math
import os
import pty
import re
import resource
import shutil
import signal
import subprocess
import time

import torch

import gpt
from support import FULL, TINY, Run, TestCase, program, slow, twobw, words

# The weights that a batch under 2bw runs on: predicted, or one update old.
TWO_BW = {
    "predicted": {"pipeline.schedule": "2bw"},
    "paper": {"pipeline.schedule": "2bw", "pipeline.predict": "false"},
}

# Runs that are compared have the same split: predictions depend on it.
HALVES = {"pipeline.stages": 2, "pipeline.split": "[6,6]"}


def expected_shapes(tied=True):
    width, vocab, context = (TINY["model." + key] for key in ("width", "vocab", "context"))
    norm = {"norm.weight": [width], "norm.bias": [width]}
    shapes = {"embedding.tokens": [vocab, width], "embedding.positions": [context, width]}
    for block in range(TINY["model.layers"]):
        for part, linears in (
            ("attention", {"qkv": (3 * width, width), "out": (width, width)}),
            ("mlp", {"up": (4 * width, width), "down": (width, 4 * width)}),
        ):
            at = f"blocks.{block}.{part}."
            shapes.update({at + name: shape for name, shape in norm.items()})
            for name, (rows, columns) in linears.items():
                shapes.update({f"{at}{name}.weight": [rows, columns], f"{at}{name}.bias": [rows]})
    shapes.update({"head." + name: shape for name, shape in norm.items()})
    if not tied:
        shapes["head.weight"] = [vocab, width]
    return shapes


class GuardTest(TestCase):
    """A learning rate that grows until the loss climbs."""

    CLIMBS = {"pipeline.schedule": "2bw", **HALVES, "pipeline.microbatches": 2, "pipeline.sync_updates": 0,
              "optimizer.lr": 0.5, "optimizer.warmup": 400, "train.updates": 280}

    def test_names_a_remedy_that_resumes(self):
        run = self.train({**self.CLIMBS, "checkpoint.every_updates": 20, "checkpoint.keep": 20})
        warnings = [line for line in (run.folder / "log.txt").read_text().splitlines() if "warning: at update" in line]
        self.assertIn(len(warnings), (1, 2), warnings)  # once for each cause
        update, remedy = re.search(r"at update (\d+) .*(resume=\S+ pipeline.sync_updates=\d+) ", warnings[0]).groups()
        synchronous = int(remedy.split("=")[-1])
        self.assertEqual(synchronous, int(update) + 20 + 100)

        begin = int(update) // 20 * 20
        for folder in (run.folder / "checkpoints").glob("update-*"):
            if int(folder.name.split("-")[-1]) > begin:
                shutil.rmtree(folder)
        resumed = twobw("train", *remedy.split(), f"train.updates={synchronous}")
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertIn(f"resumed after update {begin}", resumed.stdout)
        lines = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
        updates = [line for line in lines if "loss" in line]
        self.assertEqual([line["update"] for line in updates], list(range(1, synchronous + 1)))
        self.assertFalse([line for line in updates[begin:] if "prediction_error" in line])

    def test_off(self):
        run = self.train({**self.CLIMBS, "pipeline.guard": "off"})
        self.assertNotIn("warning: at update", (run.folder / "log.txt").read_text())


class RunDirectoryTest(TestCase):
    def test_what_a_run_leaves(self):
        run = self.train({"train.eval_every": 3, "pipeline.stages": 2})
        names = {path.name for path in run.folder.iterdir()}
        self.assertEqual(names, {"config.yaml", "log.txt", "metrics.jsonl", "summary.json", "model"})

        self.assertEqual([line["update"] for line in run.updates], [1, 2, 3, 4, 5, 6])
        for line in run.updates:
            self.assertLessEqual({"update", "loss", "lr", "grad_norm", "tokens_per_s", "stages"}, set(line))
            self.assertGreater(line["tokens_per_s"], 0)
            self.assertEqual(len(line["stages"]), 2)
            for stage in line["stages"]:
                self.assertTrue(0 <= stage["utilisation"] <= 1, stage)
                self.assertGreater(stage["peak_bytes"], 0)
            self.assertEqual(line["data_wait_s"], max(stage["data_wait_s"] for stage in line["stages"]))
        # Under flush the first stage evaluates between an update and the next.
        self.assertEqual([line["update"] for line in run.updates if line["paused_s"] > 0], [4])
        tokens = math.prod(TINY[key] for key in ("pipeline.microbatch", "pipeline.microbatches", "model.context"))
        for before, line in zip([{"time": 0}, *run.updates], run.updates):
            training = line["time"] - before["time"] - line["paused_s"]
            self.assertGreater(training, 0)
            self.assertAlmostEqual(line["tokens_per_s"] / (tokens / training), 1)
        self.assertEqual([line["update"] for line in run.validations], [3, 6])

        summary = run.summary
        self.assertEqual(summary["updates"], 6)
        self.assertEqual(summary["loss"], run.losses[-1])
        self.assertEqual(summary["data_wait_s"], max(stage["data_wait_s"] for stage in summary["stages"]))
        self.assertAlmostEqual(summary["stages"][0]["data_wait_s"],
                               sum(line["stages"][0]["data_wait_s"] for line in run.updates))
        for stage in summary["stages"]:
            self.assertEqual(sum(stage["memory"].values()), stage["peak_bytes"])
            self.assertGreater(stage["memory"]["activations"], 0)
        self.assertEqual(summary["validation_loss"], run.validations[-1]["validation_loss"])
        self.assertEqual(summary["skipped_updates"], 0)
        self.assertIs(summary["interrupted"], False)
        self.assertEqual(len(summary["split"]), 2)
        self.assertEqual(summary["parameters"], sum(math.prod(shape) for shape in expected_shapes().values()))
        self.assertIn("validation loss", (run.folder / "log.txt").read_text())

    def train_with_files_of(self, size, settings, *arguments):
        """With `ulimit -f`."""
        return twobw("train", *arguments, *words({**TINY, **settings, "run_dir": self.folder / "run"}),
                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))

    def test_a_limit_to_its_lines(self):
        """The model is saved; the lines that do not fit are counted, and a trace is named that cannot be written."""
        process = self.train_with_files_of(1 << 14, {"model.layers": 1, "model.width": 8, "model.heads": 2,
                                                     "model.vocab": 16, "train.updates": 120}, "--trace", "/dev/full")
        self.assertEqual((process.returncode, process.stderr), (0, ""), process.stdout)
        run = Run(self.folder / "run")
        lost = 120 - len(run.lines)
        self.assertEqual([line["update"] for line in run.updates], [*range(1, 121 - lost)])
        file = f"'{run.folder}/metrics.jsonl'"
        self.assertEqual(process.stdout.count(f"warning: {file} cannot be written: File too large"), 1)
        last = f"warning: {lost} lines of {file} are lost: File too large"
        trace = "warning: '/dev/full' cannot be written: No space left on device"
        self.assertEqual(process.stdout.splitlines()[-2:], [trace, last])
        self.assertIn(last, (run.folder / "log.txt").read_text())
        self.assertTrue((run.folder / "model/model.safetensors").exists())

    def test_a_limit_to_its_model(self):
        process = self.train_with_files_of(1 << 15, {})
        folder = self.folder / "run"
        sentence = f"'{folder}/model.partial/model.safetensors.partial' cannot be written: File too large"
        self.assertEqual((process.returncode, process.stderr), (1, f"twobw: {sentence}\n"))
        self.assertFalse((folder / "model.partial").exists())

    def test_what_replicas_leave(self):
        run = self.train({"pipeline.stages": 2, "pipeline.replicas": 3}, arguments=["--trace", self.folder / "trace"])
        workers = [(replica, stage) for replica in range(3) for stage in range(2)]
        summary = run.summary
        self.assertEqual(summary["replicas"], 3)
        for entries in [summary["stages"], *(line["stages"] for line in run.updates)]:
            self.assertEqual([(entry["replica"], entry["stage"]) for entry in entries], workers)
            for entry in entries:
                self.assertGreater(entry["peak_bytes"], 0)
        self.assertIn("3 replicas of 2 stages", run.process.stdout)
        for replica, stage in workers:
            self.assertEqual(run.process.stdout.count(f"  replica {replica} stage {stage}"), 2)
        tokens = 3 * math.prod(TINY[key] for key in ("pipeline.microbatch", "pipeline.microbatches", "model.context"))
        times = [0, *(line["time"] for line in run.updates)]
        for before, line in zip(times, run.updates):
            self.assertAlmostEqual(line["tokens_per_s"], tokens / (line["time"] - before), delta=1)
        events = json.loads((self.folder / "trace").read_text())
        self.assertEqual({(event["pid"], event["tid"]) for event in events}, set(workers))

    def test_the_model_file(self):
        for tied in ("true", "false"):
            weights = self.train({"model.tied": tied, "pipeline.stages": 3}, name=f"tied-{tied}").weights()
            self.assertEqual({name: list(w.shape) for name, w in weights.items()}, expected_shapes(tied == "true"))
            self.assertTrue(all(w.dtype == torch.float32 and w.isfinite().all() for w in weights.values()))

    def test_a_run_can_be_repeated_from_its_configuration(self):
        for name, settings in TWO_BW.items() if FULL else [("predicted", TWO_BW["predicted"])]:
            with self.subTest(name):
                run = self.train({**settings, "model.dropout": 0.1}, name=name)
                # Predictions depend on the split, and another measurement might give another split.
                self.assertIn(f"\n  split: {run.summary['split']} ", (run.folder / "config.yaml").read_text())
                again = twobw("train", run.folder / "config.yaml", f"run_dir={self.folder / f'{name}-again'}")
                self.assertEqual(again.returncode, 0, again.stderr)
                self.assertEqual(Run(self.folder / f"{name}-again").losses, run.losses)
                in_place = twobw("train", run.folder / "config.yaml")
                self.assertEqual(in_place.returncode, 0, in_place.stderr)
                self.assertEqual(Run(self.folder / name).losses, Run(self.folder / f"{name}.1").losses)


class OutputTest(TestCase):
    def test_on_how_much_it_validates(self):
        (self.folder / "text").write_bytes(bytes(range(60)))  # 3 windows
        text = f"{self.folder / 'text'} (60 bytes)"
        for settings, said in (
            ({}, "64 tokens of synthetic tokens below 64"),
            ({"data.validation": self.folder / "text"}, f"all 48 tokens of {text}"),
            ({"data.validation": self.folder / "text", "train.eval_microbatches": 1},
             f"the first 32 of 48 tokens of {text}"),
        ):
            output = self.train({**settings, "train.updates": 2, "train.eval_every": 2}).process.stdout
            self.assertIn(f"\nvalidation on {said}, every 2 updates\n", output)

    def test_plain_lines_where_there_is_no_terminal(self):
        output = self.train({}).process.stdout
        self.assertNotIn("\r", output)
        self.assertNotIn("\033", output)
        self.assertIn("update 6/6  loss ", output)

    def test_what_weights_are_predicted_from(self):
        said = "  weights predicted from the first {} microbatches of the batch before{}\n"
        some = ", for the first {} of a batch; the others run on true weights"
        for settings, k, first in (
            ({"pipeline.stages": 2, "pipeline.step_slack": 2}, "3, 4 of 4", some.format(3)),
            ({"pipeline.stages": 2, "pipeline.replicas": 2, "pipeline.microbatches": 2}, "1, 1 of 2", ""),
        ):
            run = self.train({**TWO_BW["predicted"], **settings, "train.updates": 3})
            self.assertIn(said.format(k, first), run.process.stdout)
        self.assertNotIn("predicted", self.train({**TWO_BW["paper"], "train.updates": 3}).process.stdout)

    def test_another_schedule_beside_the_run(self):
        settings = {**TINY, "pipeline.stages": 2, "pipeline.schedule": "2bw", "run_dir": str(self.folder / "beside")}
        process = twobw("train", *words(settings), "--beside", "flush")
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertRegex(process.stdout, r"beside flush, \d+ times 8 updates each in turn: 2bw \S+ tokens/s, flush \S+, "
                                         r"so 2bw is \d+\.\d\d times as fast\n")
        # It trains nothing: the files are those of the run.
        self.assertEqual(Run(self.folder / "beside").summary["schedule"], "2bw")

    def test_a_live_line_on_a_terminal(self):
        terminal, side = pty.openpty()
        command = [program("TWOBW_BINARY", "twobw"), "train", *words({**TINY, "run_dir": self.folder / "run"})]
        process = subprocess.Popen(command, stdin=side, stdout=side, stderr=side)
        os.close(side)
        output = b""
        try:
            while part := os.read(terminal, 4096):
                output += part
        except OSError:  # how Linux says that the other side is closed
            pass
        os.close(terminal)
        self.assertEqual(process.wait(timeout=60), 0, output)
        self.assertIn(b"\r\033[K6/6 [========================] loss ", output)
        self.assertNotIn(b"update 6/6", output)


class InterruptTest(TestCase):
    def start(self, settings, name="run"):
        """Starts a run that would take far longer than any test."""
        folder = self.folder / name
        settings = {**TINY, "train.updates": 10**6, "optimizer.decay": "constant", **settings, "run_dir": folder}
        command = [program("TWOBW_BINARY", "twobw"), "train", *words(settings)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        return Run(folder, process)

    def wait_for(self, condition, process):
        deadline = time.monotonic() + 60
        while not condition():
            self.assertIsNone(process.poll(), "the run ended by itself")
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def catches_interrupts(self, process):
        with open(f"/proc/{process.pid}/status") as status:
            [caught] = [int(line.split()[1], 16) for line in status if line.startswith("SigCgt")]
        return bool(caught & 1 << (signal.SIGINT - 1))

    def interrupt(self, run):
        run.process.send_signal(signal.SIGINT)
        output, errors = run.process.communicate(timeout=60)
        self.assertEqual(run.process.returncode, 0, errors)
        self.assertEqual(errors, "")
        self.assertIn("interrupted", output)
        self.assertIs(run.summary["interrupted"], True)
        self.assertEqual(run.summary["updates"], len(run.updates))
        generated = twobw("generate", run.folder, "--length", 10)
        self.assertEqual(generated.returncode, 0, generated.stderr)

    def test_interrupted_runs_end_well(self):
        for schedule, replicas in (("flush", 1), ("2bw", 2)):
            with self.subTest(schedule=schedule, replicas=replicas):
                settings = {"pipeline.schedule": schedule, "pipeline.replicas": replicas}
                run = self.start(settings, name=f"{schedule}-{replicas}")
                metrics = run.folder / "metrics.jsonl"
                self.wait_for(lambda: metrics.exists() and "\n" in metrics.read_text(), run.process)
                self.interrupt(run)
                self.assertEqual([line["update"] for line in run.updates], [*range(1, len(run.updates) + 1)])
                self.assertGreater(len(run.updates), 0)
                self.assertTrue(all(weight.isfinite().all() for weight in run.weights().values()))

    def test_interrupted_before_the_first_update(self):
        """Drawing this many weights takes longer than the delivery of the signal."""
        run = self.start({"model.vocab": 60000, "model.width": 512, "optimizer.name": "sgd", "pipeline.stages": 1})
        self.wait_for(lambda: self.catches_interrupts(run.process), run.process)
        self.interrupt(run)
        self.assertEqual(run.summary["loss"], run.losses[-1] if run.losses else None)


class GenerateTest(TestCase):
    def generate(self, run, *arguments):
        return twobw("generate", run.folder, "--length", 20, *arguments)

    @slow
    def test_seed_and_temperature(self):
        run = self.train({})
        texts = [self.generate(run, "--seed", seed).stdout for seed in (1, 1, 2)]
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], texts[2])
        surest = [self.generate(run, "--temperature", 0, "--seed", seed).stdout for seed in (1, 2)]
        self.assertEqual(surest[0], surest[1])

    def test_a_prompt_the_model_does_not_know(self):
        refused = self.generate(self.train({}), "--prompt", "~")
        self.assertEqual(refused.returncode, 2)
        self.assertRegex(refused.stderr, r"\Atwobw: [^\n]*126[^\n]*64[^\n]*\n\Z")


class FailureTest(TestCase):
    """Errors that only a run can find end with one sentence, too."""

    def failed(self, process):
        self.assertEqual(process.returncode, 1, process.stderr)
        self.assertRegex(process.stderr, r"\Atwobw: [^\n]+\n\Z")
        self.assertNotIn("internal error", process.stderr)

    def test_a_model_larger_than_any_memory(self):
        huge = {**TINY, "model.vocab": 10**7, "model.width": 10**6, "run_dir": self.folder / "run"}
        for stages in (1, 2):
            self.failed(twobw("train", *words({**huge, "pipeline.stages": stages})))

    def test_text_from_a_model_that_diverged(self):
        run = self.train({"optimizer.lr": 1e30})
        self.failed(twobw("generate", run.folder))


class LearningTest(TestCase):

    def test_gradients_that_are_not_finite_are_skipped(self):
        for schedule in ("flush", "2bw"):
            with self.subTest(schedule=schedule):
                settings = {"pipeline.schedule": schedule, "optimizer.lr": 1e30, "train.eval_every": 3}
                run = self.train(settings, name=schedule)
                skipped = [line["update"] for line in run.updates if line["skipped"]]
                self.assertGreater(len(skipped), 0)
                self.assertLess(len(skipped), len(run.updates))
                self.assertEqual(run.summary["skipped_updates"], len(skipped))
                self.assertEqual(run.summary["updates"], TINY["train.updates"])
                for update in skipped:
                    self.assertIn(f"update {update} skipped", run.process.stdout)


class ValidationTest(TestCase):
    """The validation loss is that of the newest weights, as saved, even while batches run on others."""

    def evaluate(self, weights, text):
        batch, length, count = TINY["pipeline.microbatch"], TINY["model.context"], TINY["train.eval_microbatches"]
        starts = range(0, len(text) - length, length)
        windows = torch.tensor([list(text[start : start + length + 1]) for start in starts])
        losses = []
        for window in windows[: count * batch]:
            losses.append(gpt.loss(weights, TINY["model.heads"], window[None, :-1], window[None, 1:]).item())
        return sum(losses) / len(losses)

    def test_validation_runs_on_the_newest_weights(self):
        text = bytes((7 * i * i + 3 * i) % 61 for i in range(50))  # 3 windows, of which none counts twice
        (self.folder / "text").write_bytes(text)
        for kind, schedule in TWO_BW.items() if FULL else [("predicted", TWO_BW["predicted"])]:
            with self.subTest(kind):
                settings = {
                    **schedule,
                    **HALVES,
                    "data.validation": self.folder / "text",
                    "optimizer.lr": 1e-2,
                    "optimizer.decay": "constant",
                    "train.eval_every": 3,
                }
                runs = {n: self.train({**settings, "train.updates": n}, name=f"{kind}-{n}") for n in (3, 5, 6)}
                weights = {n: {name: w.double() for name, w in run.weights().items()} for n, run in runs.items()}
                losses = {n: self.evaluate(weights[n], text) for n in runs}
                # After update 3 of 6 batches are on their way that run on other weights.
                validations = [line["validation_loss"] for line in runs[6].validations]
                for validation, n in zip(validations, (3, 6), strict=True):
                    self.assertLess(abs(validation / losses[n] - 1), 1e-6)
                self.assertEqual(runs[6].summary["validation_loss"], validations[-1])

                # The losses of the update before and of W(6) carried on are others.
                ahead = {name: 2 * w - weights[5][name] for name, w in weights[6].items()}
                for other in (losses[5], self.evaluate(ahead, text)):
                    self.assertGreater(abs(other / losses[6] - 1), 5e-5)
