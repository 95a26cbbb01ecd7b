"""One run in several processes: the bits of the serial oracle and of one process, under every launcher."""
import os
import signal
import unittest

from processes import GRACE, TORCHRUN, ProcessesTest, has_checkpoint, has_updates, listening, mpirun
from resume_test import exact_lines
from support import FULL, TINY, Run, program, slow, twobw, words

PAPER = {"pipeline.schedule": "2bw", "pipeline.predict": "false"}
PREDICTED = {"pipeline.schedule": "2bw"}


def layout(stages, replicas=1, **settings):
    return {"pipeline.stages": stages, "pipeline.replicas": replicas, **settings}


class VerifyTest(ProcessesTest):
    """What `verify` has without a file: tied embeddings, clipping, dropout and evaluations."""

    def equal(self, size, settings):
        output = self.run_ranks(size, "verify", settings=settings).output()
        self.assertIn("equal to the serial oracle, bit for bit", output)
        return output

    # Numbers of processes, each with as many workers as divide evenly, and settings.
    CASES = (
        (2, {**layout(2), **PREDICTED}),
        (2, {**layout(2), "pipeline.schedule": "flush", "pipeline.recompute": "[0]", "optimizer.clip": 0.5}),
        (3, {**layout(3), **PAPER, "pipeline.extra": 1, "optimizer.name": "sgd"}),
        (4, {**layout(4), "pipeline.schedule": "gpipe", "pipeline.recompute": "all"}),
        (2, {**layout(4), **PREDICTED, "pipeline.sync_updates": 0, "pipeline.microbatches": 8}),
        (2, {**layout(2, 2), **PREDICTED, "pipeline.sync_updates": 0}),
        (4, {**layout(2, 2), **PREDICTED, "optimizer.clip": 0.5}),
        (2, {**layout(1, 2), "pipeline.schedule": "flush", "model.tied": "false"}),
    )

    def test_the_serial_oracle(self):
        for size, settings in self.CASES if FULL else self.CASES[::3]:
            with self.subTest(processes=size, **settings):
                output = self.equal(size, settings)
                replicas = settings["pipeline.replicas"]
                self.assertIn(f"w={replicas} replicas" if replicas > 1 else "d=", output)

    def test_a_difference_is_seen(self):
        """Against another schedule every process reports the difference by its exit code."""
        job = self.start_ranks(2, "verify", "--against", "flush", settings={"pipeline.sync_updates": 0})
        self.assertEqual(job.wait(60), [1, 1], job.everything())
        self.assertIn("DIFFERENT from the serial oracle, first at update", job.output())


class LaunchersTest(ProcessesTest):
    def assert_equal_to_the_oracle(self, launcher, settings=()):
        job = self.run_launched(launcher, "verify", settings=settings)
        self.assertEqual(job.output().count("equal to the serial oracle, bit for bit"), 1, job.everything())

    def test_torchrun(self):
        launcher = [*TORCHRUN, "--standalone", "--nproc-per-node", "2"]
        self.assert_equal_to_the_oracle(launcher, {"pipeline.stages": 2})

    @unittest.skipUnless(mpirun(2), "mpirun is not installed")
    def test_mpirun(self):
        self.assert_equal_to_the_oracle(mpirun(3), {"pipeline.stages": 3})

    def test_wrong_input(self):
        """One sentence, from rank 0, and exit code 2 on every rank."""
        for size, settings, part in (
                (3, {"pipeline.stages": 2}, r"\b2\b.*\b3\b|\b3\b.*\b2\b"),
                (2, {"pipeline.stages": 2, "network.interface": "nonesuch0"}, "nonesuch0"),
                (2, {"pipeline.stages": 2, "network.heartbeat_timeout": 0}, "network.heartbeat_timeout")):
            with self.subTest(processes=size, **settings):
                job = self.start_ranks(size, "train", settings={**TINY, **settings, "run_dir": self.folder / "run"})
                self.assertEqual(job.wait(30), [2] * size, job.everything())
                self.assertRegex(job.errors(0), part)
                self.assertEqual(job.errors(0).count("\n"), 1, job.everything())
                self.assertFalse((self.folder / "run").exists())

    def test_wrong_input_that_rank_0_alone_finds(self):
        """The others have joined by then, and wait for its plan: they end with its exit code."""
        for command, settings in (("train", {"run_dir": "a-file"}), ("train", {"resume": "nowhere"}),
                                  ("train", {"model.from": "nowhere"})):
            with self.subTest(command=command, **settings):
                (self.folder / "a-file").write_text("")
                settings = {key: self.folder / name for key, name in settings.items()}
                job = self.start_ranks(2, command, settings={**TINY, "pipeline.stages": 2, **settings})
                self.assertEqual(job.wait(30), [2, 2], job.everything())
                self.assertEqual(job.errors(0).count("\n"), 1, job.everything())
                self.assertIn(str(*settings.values()), job.errors(0))

    def test_ranks_with_different_configurations(self):
        given = [{**TINY, "train.seed": seed, "run_dir": self.folder / "run"} for seed in (0, 1)]
        job = self.start_ranks(2, "train", settings=given)
        self.assertEqual(job.wait(30), [2, 2], job.everything())
        self.assertRegex(job.errors(0), r"train\.seed.*'0' on process 0.*'1' on process 1")


class TrainTest(ProcessesTest):
    """Checkpoints, evaluations, dropout; the split is given, since a measured one may differ from run to run."""

    SETTINGS = {**TINY, "model.dropout": 0.1, "train.updates": 40, "train.eval_every": 20, "pipeline.schedule": "2bw",
                "pipeline.stages": 2, "pipeline.split": "[6, 6]", "checkpoint.every_updates": 10, "network.heartbeat_timeout": 10}

    def settings(self, name, **changes):
        return {**self.SETTINGS, "run_dir": self.folder / name, **changes}

    def train_in(self, size, settings):
        if size > 1:
            self.run_ranks(size, "train", settings=settings)
        else:
            process = twobw("train", *words(settings))
            self.assertEqual((process.returncode, process.stderr), (0, ""), process.stdout)
        return Run(settings["run_dir"])

    def assert_same(self, run, whole):
        self.assertEqual(exact_lines(run), exact_lines(whole))
        names = sorted(path.name for path in (whole.folder / "model").iterdir())
        self.assertEqual(sorted(path.name for path in (run.folder / "model").iterdir()), names)
        for name in names:
            self.assertEqual((run.folder / "model" / name).read_bytes(), (whole.folder / "model" / name).read_bytes())

    def test_the_run_of_one_process(self):
        one = self.train_in(1, self.settings("one"))
        two = self.train_in(2, self.settings("two"))
        self.assert_same(two, one)
        self.assertEqual(sorted(path.name for path in two.folder.iterdir()),
                         sorted(path.name for path in one.folder.iterdir()))
        for line in ("checkpoint", "loss", "validation_loss"):
            self.assertEqual(*(sorted({tuple(sorted(found)) for found in run.lines if line in found and
                                       "prediction_error" not in found}) for run in (one, two)))
        exact = ("updates", "skipped_updates", "loss", "validation_loss", "best_validation_loss", "schedule", "split",
                 "parameters", "interrupted")
        self.assertEqual(*({key: run.summary.get(key) for key in exact} for run in (one, two)))
        self.assertEqual([stage["layers"] for stage in two.summary["stages"]],
                         [stage["layers"] for stage in one.summary["stages"]])
        for stage in two.summary["stages"]:
            self.assertGreater(stage["peak_bytes"], 0)
            self.assertGreater(stage["utilisation"], 0)
        newest = [run.folder / "checkpoints" / (run.folder / "checkpoints/latest").read_text().strip()
                  for run in (one, two)]
        self.assertEqual(newest[0].name, newest[1].name)
        compared = twobw("checkpoint", "diff", *newest)
        self.assertEqual(compared.returncode, 0, compared.stdout + compared.stderr)
        verified = twobw("checkpoint", "verify", two.folder)
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)

    def kill_in(self, size, settings, victim, after):
        """Starts or resumes, and kills a rank after a checkpoint beyond that update."""
        settings = {**settings, "resume": "auto"}
        if size > 1:
            job = self.start_ranks(size, "train", settings=settings)
        else:
            job = self.job()
            job.start([program("TWOBW_BINARY", "twobw"), "train", *words(settings)])
        self.assertTrue(job.wait_for(lambda: has_checkpoint(settings["run_dir"], after)),
                        "the run was faster than the signal\n" + job.everything())
        job.signal(victim, signal.SIGKILL)
        codes = job.wait(10 + GRACE)
        self.assertNotIn(0, codes, job.everything())
        job.assert_no_orphans()
        self.assertFalse((settings["run_dir"] / "summary.json").exists())

    @slow
    def test_killed_and_resumed_in_other_processes(self):
        """Two processes, one, and two again; each but the last loses a rank to SIGKILL."""
        long = {"train.updates": 300, "train.eval_every": 100}
        whole = self.train_in(1, self.settings("whole", **long))
        settings = self.settings("run", **long)
        self.kill_in(2, settings, victim=1, after=20)
        self.kill_in(1, settings, victim=0, after=80)
        self.kill_in(2, settings, victim=0, after=140)
        self.assert_same(self.train_in(2, {**settings, "resume": "auto"}), whole)

    @slow
    def test_torchrun_restarts_it(self):
        """All ranks restart when one is killed, and resume from the newest checkpoint."""
        long = {"train.updates": 300, "train.eval_every": 100}
        whole = self.train_in(1, self.settings("whole", **long))
        settings = self.settings("run", **long, resume="auto")
        job = self.job()
        job.start([*TORCHRUN, "--standalone", "--nproc-per-node", 2, "--max-restarts", 2,
                   program("TWOBW_BINARY", "twobw"), "train", *words(settings)])
        for after in (20, 150):
            self.assertTrue(job.wait_for(lambda: has_checkpoint(settings["run_dir"], after)), job.everything())
            os.kill(job.engines()[-1], signal.SIGKILL)
        self.assertEqual(job.wait(120), [0], job.everything())
        job.assert_no_orphans()
        self.assert_same(Run(settings["run_dir"]), whole)

    def test_a_signal_saves_and_ends_the_run(self):
        """To any rank: all of them save, and end well."""
        settings = self.settings("run", **{"train.updates": 10**6, "checkpoint.every_updates": 0, "train.eval_every": 0,
                                           "optimizer.decay": "constant"})
        job = self.start_ranks(2, "train", settings=settings)
        self.assertTrue(job.wait_for(lambda: has_updates(settings["run_dir"], 3)), job.everything())
        job.signal(1, signal.SIGTERM)
        self.assertEqual(job.wait(30), [0, 0], job.everything())
        self.assertTrue(Run(settings["run_dir"]).summary["interrupted"])
        verified = twobw("checkpoint", "verify", settings["run_dir"])
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)
        self.assertRegex(twobw("checkpoint", "list", settings["run_dir"]).stdout, r"update \d+")

    def test_on_one_host_nothing_listens_beyond_it(self):
        settings = self.settings("run", **{"train.updates": 10**6, "checkpoint.every_updates": 0})
        job = self.start_ranks(2, "train", settings=settings)
        self.assertTrue(job.wait_for(lambda: has_updates(settings["run_dir"], 3)), job.everything())
        places = [place for pid in job.engines() for place in listening(pid)]
        self.assertTrue(places, "rank 0 listens somewhere")
        for address, port in places:
            self.assertTrue(address.startswith("127.") or address == "::1", f"{address}:{port}")
