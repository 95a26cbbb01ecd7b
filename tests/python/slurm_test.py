"""Runs under Slurm: srun alone, and batch jobs as docs/how-to/several-machines.md has them, on a Slurm of one node."""
import signal
import subprocess
import unittest

import slurm
from processes import GRACE, ProcessesTest, has_checkpoint
from resume_test import exact_lines
from support import TINY, Run, program, slow, twobw, words

UNAVAILABLE = slurm.available()
BATCH = """\
#!/bin/bash
#SBATCH --nodes=1 --ntasks-per-node=2 --output={log} --open-mode=append
export TWOBW_JOB_TOKEN=$(openssl rand -hex 32)
srun --overcommit {command}
"""


@unittest.skipIf(UNAVAILABLE, UNAVAILABLE)
class SlurmTest(ProcessesTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        try:
            cls.cluster = slurm.Slurm().__enter__()
        except slurm.Unavailable as reason:
            raise unittest.SkipTest(str(reason))
        cls.addClassCleanup(cls.cluster.close)

    def start(self, job, name, *arguments):
        return job.start(self.cluster.command(name, *arguments), self.cluster.environment)

    def settings(self, name, updates):
        return {**TINY, "model.dropout": 0.1, "optimizer.decay": "constant", "pipeline.schedule": "2bw",
                "pipeline.split": "[6, 6]", "train.updates": updates, "checkpoint.every_updates": 5,
                "network.heartbeat_timeout": 5, "run_dir": self.folder / name}

    def test_srun(self):
        job = self.job()
        self.start(job, "srun", "-n", 2, "--overcommit", program("TWOBW_BINARY", "twobw"), "verify")
        self.assertEqual(job.wait(60), [0], job.everything())
        self.assertEqual(job.output().count("equal to the serial oracle, bit for bit"), 1, job.everything())
        job.assert_no_orphans()

    @slow
    def test_two_jobs_at_once(self):
        """Each has a port and a token of its own, though nobody has set any."""
        job = self.job()
        for _ in range(2):
            self.start(job, "srun", "-n", 2, "--overcommit", "--oversubscribe", program("TWOBW_BINARY", "twobw"),
                       "verify")
        self.assertEqual(job.wait(60), [0, 0], job.everything())
        for number in range(2):
            self.assertIn("equal to the serial oracle, bit for bit", job.output(number))

    def test_a_process_that_is_killed_ends_the_step(self):
        settings = self.settings("run", 10**6)
        job = self.job()
        self.start(job, "srun", "-n", 2, "--overcommit", program("TWOBW_BINARY", "twobw"), "train", *words(settings))
        self.assertTrue(job.wait_for(lambda: has_checkpoint(settings["run_dir"])), job.everything())
        engines = job.engines()
        self.assertEqual(len(engines), 2, job.everything())
        subprocess.run(["kill", f"-{signal.SIGKILL.value}", str(engines[1])], check=True)
        self.assertNotEqual(job.wait(5 + GRACE), [0], job.everything())
        job.assert_no_orphans()
        verified = twobw("checkpoint", "verify", settings["run_dir"])
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)

    def submit(self, settings):
        """The batch job's words, when it has ended, and its exit code."""
        log, script = self.folder / "log", self.folder / "batch"
        command = [program("TWOBW_BINARY", "twobw"), "train", *words({**settings, "resume": "auto"})]
        script.write_text(BATCH.format(log=log, command=" ".join(f"'{word}'" for word in command)))
        job = self.job()
        self.start(job, "sbatch", "--wait", script)
        return job, log

    @slow
    def test_a_batch_job_that_is_cut_goes_on(self):
        """Cancelled with SIGTERM, as at its time limit: it saves, and the same script resumes."""
        settings = self.settings("run", 10**6)
        job, log = self.submit(settings)
        self.assertTrue(job.wait_for(lambda: has_checkpoint(settings["run_dir"])), job.everything())
        number = job.output().split()[-1]
        subprocess.run(self.cluster.command("scancel", "--signal=TERM", number), check=True,
                       env={**self.cluster.environment}, timeout=20)
        job.wait(60)
        self.assertIn("interrupted: saving a checkpoint", log.read_text())
        newest = max(int(path.name[len("update-"):])
                     for path in (settings["run_dir"] / "checkpoints").glob("update-????????"))
        ends = {**settings, "train.updates": newest + 10}
        job, log = self.submit(ends)
        self.assertEqual(job.wait(60), [0], log.read_text())
        self.assertIn(f"resumed after update {newest}", log.read_text())
        whole = {**ends, "run_dir": self.folder / "whole"}
        alone = twobw("train", *words(whole))
        self.assertEqual(alone.returncode, 0, alone.stderr)
        self.assertEqual(exact_lines(Run(settings["run_dir"])), exact_lines(Run(whole["run_dir"])))
        self.assertEqual((settings["run_dir"] / "model/model.safetensors").read_bytes(),
                         (whole["run_dir"] / "model/model.safetensors").read_bytes())
