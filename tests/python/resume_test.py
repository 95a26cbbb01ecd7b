"""Runs that are killed and resumed, from outside: they end as an uninterrupted run does."""
import json
import os
import random
import shutil
import signal
import subprocess
import time

from processes import mount_disk
from support import FULL, TINY, TWO_CORES, Run, TestCase, program, twobw, words

# Fields of metrics.jsonl that do not depend on time.
EXACT = ("update", "loss", "lr", "grad_norm", "skipped", "validation_loss", "prediction_error", "loss_scale")
CASES = [
    {"pipeline.schedule": schedule, "pipeline.stages": stages, "pipeline.replicas": replicas}
    for schedule, stages, replicas in (
        ("2bw", 3, 1), ("2bw", 2, 2), ("flush", 2, 1),
        *((("2bw", 1, 1), ("2bw", 2, 1), ("flush", 1, 2), ("gpipe", 3, 1)) if FULL else ()))
] + [
    {"pipeline.schedule": "2bw", "pipeline.stages": 2, "pipeline.replicas": 1, "devices": TWO_CORES, **precision}
    for precision in ({"train.precision": "fp16", "train.loss_scale": 2**24, "train.loss_scale_window": 5},
                      *([{"train.precision": "bf16"}] if FULL else []))
]
SPLITS = {1: "[12]", 2: "[6, 6]", 3: "[4, 4, 4]"}
KILLS = int(os.environ.get("TWOBW_KILLS", 1))  # of every case


def exact_lines(run):
    lines = [line for line in run.lines if "checkpoint" not in line]
    return [{key: line[key] for key in EXACT if key in line} for line in lines]


class ResumeTest(TestCase):
    def settings(self, case, name):
        return {**TINY, "model.dropout": 0.1, "train.updates": 24, "train.eval_every": 7, "pipeline.microbatches": 6,
                "checkpoint.every_updates": 3, "pipeline.split": SPLITS[case["pipeline.stages"]],
                "run_dir": self.folder / name, **case}

    def start(self, settings):
        command = [program("TWOBW_BINARY", "twobw"), "train", *words(settings)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        return Run(settings["run_dir"], process)

    def wait_for(self, condition, process):
        """Whether it came true before the process ended."""
        deadline = time.monotonic() + 60
        while process.poll() is None:
            if condition():
                return True
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.002)
        return False

    def has_updates(self, run, count):
        metrics = run.folder / "metrics.jsonl"
        return metrics.exists() and metrics.read_text().count('"grad_norm"') >= count

    def kill_somewhere(self, settings, chance):
        run = self.start(settings)
        count = chance.randint(1, 20)
        if self.wait_for(lambda: self.has_updates(run, count), run.process):
            time.sleep(chance.random() * 0.02)
        run.process.kill()
        run.process.communicate()
        return run

    def finish(self, settings):
        process = twobw("train", *words({**settings, "resume": "auto"}))
        self.assertEqual(process.returncode, 0, process.stderr)
        return Run(settings["run_dir"], process)

    def assert_same(self, run, whole):
        self.assertEqual(exact_lines(run), exact_lines(whole))
        self.assertEqual((run.folder / "model/model.safetensors").read_bytes(),
                         (whole.folder / "model/model.safetensors").read_bytes())

    def test_killed_at_any_moment(self):
        chance = random.Random(0)
        for number, case in enumerate(CASES):
            whole = None
            for kill in range(KILLS):
                with self.subTest(case=case, kill=kill):
                    if whole is None:
                        settings = self.settings(case, f"whole{number}")
                        process = twobw("train", *words(settings))
                        self.assertEqual(process.returncode, 0, process.stderr)
                        whole = Run(settings["run_dir"], process)
                    settings = self.settings(case, f"run{number}.{kill}x")
                    self.kill_somewhere(settings, chance)
                    if (settings["run_dir"] / "summary.json").exists():
                        continue  # it was faster than the signal
                    self.assert_same(self.finish(settings), whole)

    def test_a_signal_saves_and_ends_the_run(self):
        case = {"pipeline.schedule": "2bw", "pipeline.stages": 2, "pipeline.replicas": 1}
        settings = {**self.settings(case, "run"), "train.updates": 10**6, "checkpoint.every_updates": 0,
                    "optimizer.decay": "constant"}
        run = self.start(settings)
        self.assertTrue(self.wait_for(lambda: self.has_updates(run, 3), run.process))
        run.process.send_signal(signal.SIGUSR1)
        store = run.folder / "checkpoints"
        self.assertTrue(self.wait_for(lambda: (store / "latest").exists(), run.process), "SIGUSR1 ended the run")
        run.process.send_signal(signal.SIGTERM)
        output, errors = run.process.communicate(timeout=60)
        self.assertEqual((run.process.returncode, errors), (0, ""), output)
        newest = (store / "latest").read_text().strip()
        saved = json.loads((store / newest / "checkpoint.json").read_text())["update"]
        self.assertEqual(saved, run.summary["updates"] - 1)
        self.assertFalse(list(store.glob("*.partial")))

        process = twobw("train", f"resume={run.folder}", f"train.updates={saved + 5}")
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertEqual([line["update"] for line in run.updates], [*range(1, saved + 6)])

    def test_a_store_that_cannot_be_written(self):
        case = {"pipeline.schedule": "2bw", "pipeline.stages": 2, "pipeline.replicas": 1}
        settings = self.settings(case, "run")
        settings["run_dir"].mkdir()
        (settings["run_dir"] / "checkpoints").write_text("in the way")
        process = twobw("train", *words(settings))
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertIn("warning: no checkpoint after update", process.stdout)

    def test_a_full_disk(self):
        """The run continues, earlier checkpoints are good, and the log names the missing ones."""
        small = self.folder / "small"
        if not mount_disk(small, "1500k"):
            self.skipTest("only root can mount a small disk")
        self.addCleanup(subprocess.run, ["umount", small], check=True)
        case = {"pipeline.schedule": "2bw", "pipeline.stages": 2, "pipeline.replicas": 1}
        settings = {**self.settings(case, "run"), "checkpoint.keep": 100}
        settings["run_dir"].mkdir()
        (settings["run_dir"] / "checkpoints").symlink_to(small)
        process = twobw("train", *words({**settings, "resume": "auto"}))
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertIn("saved a checkpoint after update", process.stdout)
        self.assertIn("warning: no checkpoint after update", process.stdout)
        self.assertEqual(twobw("checkpoint", "verify", settings["run_dir"]).returncode, 0)

    def test_checkpoint_commands(self):
        case = {"pipeline.schedule": "2bw", "pipeline.stages": 2, "pipeline.replicas": 1}
        settings = self.settings(case, "run")
        process = twobw("train", *words(settings))
        self.assertEqual(process.returncode, 0, process.stderr)
        folder = settings["run_dir"]
        listed = twobw("checkpoint", "list", folder)
        self.assertEqual(listed.returncode, 0, listed.stderr)
        self.assertIn("update 24", listed.stdout)
        self.assertEqual(twobw("checkpoint", "verify", folder).returncode, 0)
        a, b, _ = sorted((folder / "checkpoints").glob("update-*"))[-3:]  # the last has no predictions
        shown = twobw("checkpoint", "show", a)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("predicted", shown.stdout)
        self.assertEqual(twobw("checkpoint", "diff", a, a).returncode, 0)
        self.assertEqual(twobw("checkpoint", "diff", a, b).returncode, 1)

        state = a / "state.safetensors"
        damaged = bytearray(state.read_bytes())
        damaged[-1] ^= 1
        state.write_bytes(damaged)
        verified = twobw("checkpoint", "verify", folder)
        self.assertEqual(verified.returncode, 1)
        self.assertIn(f"'{state}' is damaged", verified.stdout)
        missing = twobw("checkpoint", "show", self.folder / "nowhere")
        self.assertEqual((missing.returncode, missing.stderr.count("\n")), (2, 1))

    def test_other_stages(self):
        """A new number of stages gets a new split, not that of the checkpoint."""
        case = {"pipeline.schedule": "2bw", "pipeline.stages": 3, "pipeline.replicas": 1}
        settings = {**self.settings(case, "run"), "train.updates": 4}
        self.assertEqual(twobw("train", *words(settings)).returncode, 0)
        process = twobw("train", f"resume={settings['run_dir']}", "train.updates=8", "pipeline.stages=2")
        self.assertEqual(process.returncode, 0, process.stderr)
        run = Run(settings["run_dir"])
        self.assertEqual([len(run.losses), len(run.summary["stages"])], [8, 2])

    def test_a_cut_configuration_is_refused(self):
        """And not taken with defaults for the keys that it lost."""
        case = {"pipeline.schedule": "flush", "pipeline.stages": 1, "pipeline.replicas": 1}
        settings = {**self.settings(case, "run"), "train.updates": 4}
        self.assertEqual(twobw("train", *words(settings)).returncode, 0)
        file = settings["run_dir"] / "config.yaml"
        text = file.read_text()
        for size, command in ((0, ("train", f"resume={file.parent}", "train.updates=6")),
                              (4096, ("train", f"resume={file.parent}", "train.updates=6")),
                              (4096, ("train", file, f"run_dir={self.folder / 'new'}")),
                              (4096, ("eval", file.parent))):
            with self.subTest(size=size, command=command):
                file.write_text(text[:size])
                refused = twobw(*command)
                self.assertEqual(refused.returncode, 2, refused.stdout)
                self.assertRegex(refused.stderr, rf"\Atwobw: '{file}' is cut: [^\n]*checkpoint config[^\n]*\n\Z")
        restored = twobw("checkpoint", "config", file.parent)
        self.assertEqual(restored.stdout, text, restored.stderr)

    def test_a_branch_leaves_the_run_as_it_is(self):
        """It continues from its own folder after that of the run is gone."""
        case = {"pipeline.schedule": "2bw", "pipeline.stages": 2, "pipeline.replicas": 1}
        whole, run, branch = (self.settings(case, name)["run_dir"] for name in ("whole", "run", "branch"))
        settings = {**self.settings(case, "whole"), "train.updates": 8}
        self.assertEqual(twobw("train", *words(settings)).returncode, 0)
        shutil.copytree(whole, run)
        shutil.rmtree(max((run / "checkpoints").glob("update-*")))
        before = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
        process = twobw("train", f"resume={run}", f"run_dir={branch}", "checkpoint.keep=1")
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertRegex(process.stdout, f"resumed after update [36] from {run}/")
        after = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
        self.assertEqual([file for file in {**before, **after} if before.get(file) != after.get(file)], [])
        self.assert_same(Run(branch, process), Run(whole))
        shutil.rmtree(run)
        process = twobw("train", f"resume={branch}", "train.updates=9")
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertEqual([line["update"] for line in Run(branch, process).updates], [*range(1, 10)])
