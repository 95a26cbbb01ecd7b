"""Shared by the tests: run the programs, read run directories, compare tensors.

The programs are found through TWOBW_BINARY and TWOBW_REFERENCE; without them, in build/.
"""
import functools
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FULL = os.environ.get("TWOBW_FULL_SWEEPS") == "1"  # make test-all
slow = unittest.skipUnless(FULL, "make test-all")

# A model that trains in a moment, with more than one of everything.
TINY = {
    "model.layers": 2,
    "model.width": 32,
    "model.heads": 4,
    "model.vocab": 64,
    "model.context": 16,
    "pipeline.schedule": "flush",
    "pipeline.microbatch": 2,
    "pipeline.microbatches": 4,
    "optimizer.lr": 3e-3,
    "optimizer.warmup": 2,
    "train.updates": 6,
    "train.eval_every": 0,
    "train.eval_microbatches": 2,
}


# GPUs are hidden from the programs, except in gpu_processes_test.
VISIBLE_GPUS = os.environ.get("CUDA_VISIBLE_DEVICES")
os.environ["CUDA_VISIBLE_DEVICES"] = ""

# `devices` of two workers.
CORES = sorted(os.sched_getaffinity(0))
TWO_CORES = f"[cpu:{CORES[0]}, cpu:{CORES[-1]}]"


def program(variable, default):
    path = pathlib.Path(os.environ.get(variable, ROOT / "build" / default)).resolve()
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; set {variable}")
    return str(path)


def words(settings):
    return [f"{key}={value}" for key, value in settings.items()]


def twobw(*arguments, **options):
    """Runs the program to its end; its output is text."""
    command = [program("TWOBW_BINARY", "twobw"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=120, **options)


@functools.cache
def reference_program(owner):
    """One for each process of tests: it loads LibTorch once, and ends with its standard input."""
    return subprocess.Popen([program("TWOBW_REFERENCE", "tests/twobw_reference")], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)


def reference(*arguments):
    """Runs a command of the test-only program, which writes its last file argument."""
    process = reference_program(os.getpid())
    process.stdin.write("\t".join(map(str, arguments)) + "\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    if answer != "done\n":
        raise ValueError(f"reference {arguments}: {answer}")


def relative_error(a, b):
    """||a - b|| / ||b||, in double, over the whole tensor."""
    a, b = a.double(), b.double()
    return ((a - b).norm() / b.norm()).item()


class Run:
    """A run directory."""

    def __init__(self, folder, process=None):
        self.folder = pathlib.Path(folder)
        self.process = process

    @property
    def lines(self):
        text = (self.folder / "metrics.jsonl").read_text()
        assert text == "" or text.endswith("\n"), "metrics.jsonl ends in the middle of a line"
        return [json.loads(line) for line in text.splitlines()]

    @property
    def updates(self):
        return [line for line in self.lines if "loss" in line]

    @property
    def validations(self):
        return [line for line in self.lines if "validation_loss" in line]

    @property
    def losses(self):
        return [line["loss"] for line in self.updates]

    @property
    def summary(self):
        return json.loads((self.folder / "summary.json").read_text())

    def weights(self):
        """By our names."""
        from safetensors.torch import load_file

        file = self.folder / "weights"
        reference("weights", self.folder / "model", file, self.folder / "config.yaml")
        return load_file(file)


class TestCase(unittest.TestCase):
    """Each test has a folder of its own, gone when it ends."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="twobw_test_"))
        self.addCleanup(shutil.rmtree, self.folder)

    def assert_near(self, ours, expected, tolerance):
        """The same tensors by name, all nonzero, each within the relative error."""
        self.assertEqual(set(ours), set(expected))
        for name, tensor in expected.items():
            with self.subTest(tensor=name):
                self.assertEqual(ours[name].shape, tensor.shape)
                self.assertGreater(tensor.norm().item(), 0)
                self.assertLess(relative_error(ours[name], tensor), tolerance)

    def train(self, settings, name="run", arguments=()):
        """Trains a tiny model with these settings changed, and expects it to succeed."""
        folder = self.folder / name
        process = twobw("train", *arguments, *words({**TINY, **settings, "run_dir": folder}))
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertEqual(process.stderr, "")
        return Run(folder, process)
