"""Runs in several processes that fail: every process ends, soon and with a report, and what was saved is good.

A case is a fault, a schedule and the moment at which the fault comes: the start, the steady state, while it saves. By
default some of them, each fault once; with TWOBW_FULL_SWEEPS=1 all. A process that never arrives and one of another
build have no moment but the start.
"""
import pathlib
import shlex
import shutil
import signal
import subprocess
import time
import unittest

import hosts as namespaces
from processes import (GRACE, ProcessesTest, fill_disk, free_port, has_checkpoint, has_updates, is_saving, mount_disk,
                       rank_environment)
from resume_test import exact_lines
from support import FULL, TINY, Run, program, slow, twobw, words

SILENCE, ARRIVAL = 3, 6
NO_HOSTS = namespaces.available()
SCHEDULES = ("2bw", "flush")
MOMENTS = ("start", "steady", "saving")
# The report of a run that had begun, from any rank.
OPS = "BeginBatch|(Recv|Send)(Activation|Gradient)|Forward|Backward|Reduce(Partial|Gradients)|Step|Predict|Save|Evaluate"
REPORT = {"the worker, its instruction and since when": rf"(?m)^  stage \d+: .*({OPS}).*batch \d+\)?.*, for [\d.]+ s$",
          "signs of life of peers": r"(?m)^  process \d+: (last heard of [\d.]+ s ago|has left)$"}


class Fault:
    """Something that happens to one rank of a run, and what becomes of its process."""

    def __init__(self, victim=1):
        self.victim = victim

    def strike(self, case, job):
        raise NotImplementedError

    def after(self, case, job):
        """When the other ranks have ended."""


class Killed(Fault):
    def strike(self, case, job):
        job.signal(self.victim, signal.SIGKILL)


class Stopped(Fault):
    """As one whose host hangs. It ends too, once it may run again."""

    def strike(self, case, job):
        job.signal(self.victim, signal.SIGSTOP)

    def after(self, case, job):
        case.assertIn(self.victim, job.running())
        job.signal(self.victim, signal.SIGCONT)
        case.assertEqual(job.wait(SILENCE + GRACE, of=[self.victim]), [1], "it does not end as others do")


class Unplugged(Fault):
    def strike(self, case, job):
        case.hosts.unplug(self.victim)


class Stalled(Fault):
    def strike(self, case, job):
        case.hosts.stall(self.victim)


ON_ONE_HOST = {"killed": Killed, "stopped": Stopped}
ON_HOSTS = {"unplugged": Unplugged, "stalled": Stalled}


class FaultCase(ProcessesTest):
    """Two ranks; the run would take days."""

    def settings(self, schedule, moment, name="run"):
        return {**TINY, "model.dropout": 0.1, "train.updates": 10**6, "optimizer.decay": "constant",
                "pipeline.schedule": schedule, "pipeline.stages": 2, "pipeline.split": "[6, 6]",
                "checkpoint.every_updates": 1 if moment == "saving" else 5, "run_dir": self.folder / name,
                "network.heartbeat_timeout": SILENCE, "network.join_timeout": ARRIVAL}

    def await_moment(self, job, folder, moment):
        if moment == "start":  # the program is there, and on its way to the others
            job.wait_for(lambda: len(job.engines()) == len(job.processes), what="all processes")
            return
        come = job.wait_for(lambda: has_updates(folder, 5) and has_checkpoint(folder), what="the first checkpoint")
        self.assertTrue(come, job.everything())
        if moment == "saving":
            saves = job.wait_for(lambda: is_saving(folder), what="a checkpoint in the making")
            self.assertTrue(saves, job.everything())

    def fails(self, fault, schedule, moment, start, name="run"):
        """Starts, strikes, and checks everything that holds of every failure; the settings of the run."""
        settings = self.settings(schedule, moment, name)
        job = start(settings)
        self.await_moment(job, settings["run_dir"], moment)
        fault.strike(self, job)
        others = [rank for rank in range(len(job.processes)) if rank != fault.victim]
        limit = (max(ARRIVAL, SILENCE) if moment == "start" else SILENCE) + GRACE
        codes = job.wait(limit, of=others)
        self.assertNotIn(0, codes, job.everything())
        fault.after(self, job)
        self.assertNotEqual(job.wait(limit, of=[fault.victim]), [0], job.everything())
        job.assert_no_orphans()
        words_ = "".join(job.errors(rank) + job.output(rank) for rank in others)
        self.assertNotEqual(words_.strip(), "", "nobody says anything")
        if moment != "start":
            for what, pattern in REPORT.items():
                self.assertRegex(words_, pattern, f"the report does not have {what}")
            self.assertRegex(words_, rf"process {fault.victim}\b")
            self.assertNotRegex(words_, r"\brank\b|process (\d+): the connection to process \1 broke|\n\n$")
            verified = twobw("checkpoint", "verify", settings["run_dir"])
            self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)
        self.assertFalse((settings["run_dir"] / "summary.json").exists())
        job.close()
        return settings

    def resumes(self, settings):
        """Continues for some updates; the result equals that of an uninterrupted run."""
        folder = settings["run_dir"]
        newest = max(int(path.name[len("update-"):]) for path in (folder / "checkpoints").glob("update-????????"))
        ends = {**settings, "train.updates": newest + 10}
        self.run_ranks(2, "train", settings={**ends, "resume": "auto"})
        whole = twobw("train", *words({**ends, "run_dir": self.folder / "whole"}))
        self.assertEqual(whole.returncode, 0, whole.stderr)
        self.assertEqual(exact_lines(Run(folder)), exact_lines(Run(self.folder / "whole")))
        self.assertEqual((folder / "model/model.safetensors").read_bytes(),
                         (self.folder / "whole/model/model.safetensors").read_bytes())


class FaultsTest(FaultCase):
    def on_one_host(self, settings):
        return self.start_ranks(2, "train", settings=settings)

    def test_killed(self):
        self.resumes(self.fails(Killed(1), "2bw", "steady", self.on_one_host))

    def test_rank_0_killed_while_it_saves(self):
        self.fails(Killed(0), "flush", "saving", self.on_one_host)

    def test_stopped(self):
        self.fails(Stopped(1), "2bw", "saving", self.on_one_host)

    def test_killed_at_the_start(self):
        self.fails(Killed(1), "flush", "start", self.on_one_host)

    @slow
    def test_all(self):
        for name, kind in ON_ONE_HOST.items():
            for schedule in SCHEDULES:
                for moment in MOMENTS:
                    for victim in (0, 1):
                        with self.subTest(fault=name, schedule=schedule, moment=moment, victim=victim):
                            run = f"{name}.{schedule}.{moment}.{victim}"
                            settings = self.fails(kind(victim), schedule, moment, self.on_one_host, run)
                            if moment == "saving":
                                self.resumes(settings)
                                shutil.rmtree(self.folder / "whole")


@unittest.skipIf(NO_HOSTS, NO_HOSTS)
class LinksTest(FaultCase):
    """The same ranks on two hosts, whose link is what fails."""

    def setUp(self):
        super().setUp()
        self.hosts = namespaces.Hosts(2).__enter__()
        self.addCleanup(self.hosts.close)

    def on_two_hosts(self, settings):
        job, port = self.job(), free_port()
        for rank in range(2):
            job.start(self.hosts.command(rank, program("TWOBW_BINARY", "twobw"), "train", *words(settings)),
                      {**rank_environment(rank, 2, port, self.hosts.address(0), local_size=1),
                       "TWOBW_JOB_TOKEN": "a token of the failing runs"})
        return job

    def test_unplugged(self):
        self.fails(Unplugged(1), "2bw", "steady", self.on_two_hosts)

    @slow
    def test_stalled(self):
        self.fails(Stalled(1), "flush", "steady", self.on_two_hosts)

    @slow
    def test_all(self):
        for name, kind in {**ON_HOSTS, **ON_ONE_HOST}.items():
            for schedule in SCHEDULES:
                for moment in MOMENTS:
                    for victim in (0, 1):
                        with self.subTest(fault=name, schedule=schedule, moment=moment, victim=victim):
                            run = f"{name}.{schedule}.{moment}.{victim}"
                            self.fails(kind(victim), schedule, moment, self.on_two_hosts, run)
                            self.hosts.plug(victim)
                            self.hosts.unstall(victim)


class StartTest(ProcessesTest):
    """Runs that never begin."""

    def settings(self, schedule="2bw"):
        return {**TINY, "pipeline.stages": 2, "pipeline.schedule": schedule, "run_dir": self.folder / "run",
                "network.join_timeout": 3, "network.heartbeat_timeout": SILENCE}

    def test_a_process_that_never_arrives(self):
        for schedule in SCHEDULES if FULL else ("2bw",):
            for there, missing in ((0, 1), (1, 0)) if FULL else ((0, 1),):
                with self.subTest(schedule=schedule, missing=missing):
                    job = self.start_ranks(2, "train", settings=self.settings(schedule), only=[there])
                    begin = time.monotonic()
                    self.assertNotEqual(job.wait(3 + GRACE), [0])
                    self.assertGreaterEqual(time.monotonic() - begin, 2.5, "it did not wait")
                    self.assertRegex(job.errors(), rf"process {missing}\b")
                    self.assertFalse((self.folder / "run").exists())
                    job.assert_no_orphans()

    def test_a_host_that_is_not_known(self):
        """It may become known while the others arrive."""
        job, begin = self.job(), time.monotonic()
        job.start([program("TWOBW_BINARY", "twobw"), "train", *words(self.settings())],
                  rank_environment(1, 2, free_port(), "no.such.host.invalid", local_size=1))
        self.assertEqual(job.wait(3 + GRACE), [1], job.everything())
        self.assertGreaterEqual(time.monotonic() - begin, 2.5, "it did not wait")
        self.assertRegex(job.errors(), r"'no\.such\.host\.invalid' is not known.*within 3 s")

    def test_a_mistake_that_one_process_finds(self):
        """Only its own process finds the error; the others get the sentence."""
        for mistaken in (0, 1):
            with self.subTest(mistaken=mistaken):
                settings = [{**self.settings(), "network.join_timeout": 60} for _ in range(2)]
                settings[mistaken]["train.nokey"] = 3
                job = self.start_ranks(2, "train", settings=settings)
                self.assertEqual(job.wait(GRACE), [2, 2], job.everything())
                for rank in range(2):
                    self.assertIn("train.nokey", job.errors(rank))
                self.assertFalse((self.folder / "run").exists())

    def make_other_build(self):
        """The same program with a byte more, which does nothing."""
        original = pathlib.Path(program("TWOBW_BINARY", "twobw"))
        other = self.folder / "other"
        other.mkdir()
        for path in original.parent.glob("twobw*"):
            if path.is_file() and (path.suffix == ".so" or path.name in (original.name, original.name + "-engine")):
                shutil.copy(path, other)
        for name in (original.name, original.name + "-engine"):
            with open(other / name, "ab") as file:
                file.write(b"\0")
        return [str(original), str(other / original.name)]

    def test_a_process_of_another_build(self):
        builds = self.make_other_build()
        for schedule in SCHEDULES if FULL else ("flush",):
            for binary in (builds, builds[::-1]) if FULL else (builds,):
                with self.subTest(schedule=schedule, binary=binary):
                    job = self.start_ranks(2, "train", settings=self.settings(schedule), binary=binary)
                    codes = job.wait(3 + GRACE)
                    self.assertNotIn(0, codes, job.everything())
                    self.assertRegex(job.errors(0), r"process 1 has build .*, process 0 has build")
                    self.assertFalse((self.folder / "run").exists())
                    job.assert_no_orphans()

    def test_two_ranks_with_one_number(self):
        """Before the run has begun: which of the two is right nobody knows."""
        job, port = self.job(), free_port()
        for rank in (0, 1, 1):
            job.start([program("TWOBW_BINARY", "twobw"), "train", *words({**self.settings(), "pipeline.stages": 3})],
                      rank_environment(rank, 3, port))
        codes = job.wait(3 + SILENCE + GRACE)
        self.assertNotIn(0, codes, job.everything())
        self.assertRegex("".join(map(job.errors, range(3))), "process 1 is there twice")


class ReaderTest(ProcessesTest):
    """The reader of the output goes away: the run continues, and its log has the lines."""

    def test_several_processes(self):
        settings = {**TINY, "train.updates": 60, "train.eval_every": 1, "pipeline.stages": 2,
                    "run_dir": self.folder / "run"}
        job, port = self.job(), free_port()
        command = shlex.join([program("TWOBW_BINARY", "twobw"), "train", *words(settings)])
        job.start(["bash", "-c", f"{command} | head -n 1; exit ${{PIPESTATUS[0]}}"], rank_environment(0, 2, port))
        job.start(["bash", "-c", command], rank_environment(1, 2, port))
        self.assertEqual(job.wait(60), [0, 0], job.everything())
        self.assertEqual(job.errors(0), "")
        self.assertEqual(job.output(0).count("\n"), 1)
        self.assertIn("after update 60: validation loss", (self.folder / "run/log.txt").read_text())


class RunDirectoryTest(ProcessesTest):
    """Two runs do not write one folder."""

    def test_another_run_is_writing_it(self):
        settings = {**TINY, "train.updates": 10**6, "optimizer.decay": "constant", "pipeline.stages": 2,
                    "network.heartbeat_timeout": 100, "run_dir": self.folder / "run"}
        job = self.start_ranks(2, "train", settings=settings)
        self.assertTrue(job.wait_for(lambda: has_updates(settings["run_dir"], 3)), job.everything())
        job.signal(1, signal.SIGSTOP)  # leaves the cores to the others
        second = [self.start_ranks(2, "train", settings={**settings, "resume": "auto"}), self.job()]
        second[1].start([program("TWOBW_BINARY", "twobw"), "train", *words(settings)])
        self.assertEqual(second[0].wait(10 + GRACE), [2, 2], second[0].everything())
        self.assertEqual(second[1].wait(10 + GRACE), [2], second[1].everything())
        for refused in second:
            self.assertRegex(refused.errors(0), rf"run_dir is '{settings['run_dir']}', which another run is writing")
        self.assertEqual(job.running(), [0, 1], job.everything())
        job.signal(1, signal.SIGCONT)
        # One that ends is waited for.
        third = self.job()
        third.start([program("TWOBW_BINARY", "twobw"), "train", *words({**settings, "train.updates": 5})])
        job.signal(0, signal.SIGKILL)
        self.assertNotIn(0, job.wait(30 + GRACE), job.everything())
        self.assertEqual(third.wait(60), [0], third.everything())
        self.assertEqual(len(Run(settings["run_dir"]).updates), 5)
        self.assertTrue((self.folder / "run.1/metrics.jsonl").exists())
        self.assertFalse(list(self.folder.glob("run*/.lock")))


class FullDiskTest(ProcessesTest):
    """As in one process: the run continues, earlier checkpoints are good, and the log names the missing ones."""

    SAVED, NOT_SAVED = "saved a checkpoint after update", "warning: no checkpoint after update"

    def mount(self, name, size):
        disk = self.folder / name
        if not mount_disk(disk, size):
            self.skipTest("only root can mount a small disk")
        self.addCleanup(subprocess.run, ["umount", disk], check=True)
        return disk

    def small_disk(self, name, size):
        """A run's folder with its checkpoints on a disk of this many KiB."""
        small, folder = self.mount(f"small.{name}", f"{size}k"), self.folder / f"run.{name}"
        folder.mkdir()
        (folder / "checkpoints").symlink_to(small)
        return folder, small

    def settings(self, schedule, folder, updates=40):
        return {**TINY, "train.updates": updates, "pipeline.stages": 2, "pipeline.schedule": schedule,
                "checkpoint.every_updates": 3, "checkpoint.keep": 10000, "run_dir": folder, "resume": "auto"}

    def full_at_the_start(self, schedule):
        """There is room for none."""
        folder, small = self.small_disk(f"start.{schedule}", 16)
        job = self.run_ranks(2, "train", settings=self.settings(schedule, folder))
        self.assertIn(self.NOT_SAVED, job.output())
        self.assertNotIn(self.SAVED, job.output())
        self.assertFalse(list(small.glob("update-*")))

    def full_in_the_steady_state(self, schedule):
        """Another program fills the disk; then the run is interrupted, and cannot save."""
        folder, small = self.small_disk(f"steady.{schedule}", 4000)
        job = self.start_ranks(2, "train", settings=self.settings(schedule, folder, updates=10**6))
        self.assertTrue(job.wait_for(lambda: has_checkpoint(folder)), job.everything())
        fill_disk(small)
        self.assertTrue(job.wait_for(lambda: self.NOT_SAVED in job.output()), job.everything())
        job.signal(1, signal.SIGTERM)
        self.assertEqual(job.wait(30), [0, 0], job.everything())
        self.assert_good(folder, small, job)

    def full_while_saving(self, schedule):
        """It fills the disk itself, in the middle of a checkpoint."""
        folder, small = self.small_disk(f"saving.{schedule}", 1500)
        self.assert_good(folder, small, self.run_ranks(2, "train", settings=self.settings(schedule, folder)))

    def assert_good(self, folder, small, job):
        self.assertIn(self.SAVED, job.output())
        self.assertIn(self.NOT_SAVED, job.output())
        verified = twobw("checkpoint", "verify", folder)
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)
        self.assertFalse(list(small.glob("*.partial")))

    def test_lines_wait_for_room(self):
        """The run's disk is full for a while: one warning, and every line is there in the end."""
        disk = self.mount("disk", "8m")
        folder = disk / "run"
        job = self.job()
        job.start([program("TWOBW_BINARY", "twobw"), "train",
                   *words({**TINY, "train.updates": 10**6, "optimizer.decay": "constant", "run_dir": folder})])
        self.assertTrue(job.wait_for(lambda: has_updates(folder, 3)), job.everything())
        filler = fill_disk(disk)
        warning = f"warning: '{folder}/metrics.jsonl' cannot be written: No space left on device"
        self.assertTrue(job.wait_for(lambda: warning in job.output()), job.everything())
        lines = (folder / "metrics.jsonl").read_text().count("\n")
        filler.unlink()
        self.assertTrue(job.wait_for(lambda: has_updates(folder, lines + 1)), job.everything())
        job.signal(0, signal.SIGTERM)
        self.assertEqual(job.wait(30), [0], job.everything())
        run = Run(folder)
        self.assertEqual([line["update"] for line in run.updates], [*range(1, run.summary["updates"] + 1)])
        self.assertEqual([job.output().count(warning), job.output().count("lost")], [1, 0])
        self.assertIn(warning, (folder / "log.txt").read_text())

    def test_the_model_waits_for_room(self):
        """The run's disk is full when the run ends, and for 2 s more."""
        disk = self.mount("disk", "8m")
        folder = disk / "run"
        job = self.job()
        settings = {**TINY, "train.updates": 10**6, "run_dir": folder}
        job.start([program("TWOBW_BINARY", "twobw"), "train", *words(settings)])
        self.assertTrue(job.wait_for(lambda: has_updates(folder, 3)), job.everything())
        filler = fill_disk(disk)
        job.signal(0, signal.SIGTERM)
        file = f"{folder}/model.partial/model.safetensors.partial"
        warning = f"warning: '{file}' cannot be written: No space left on device"
        self.assertTrue(job.wait_for(lambda: warning in job.output()), job.everything())
        time.sleep(2)
        self.assertEqual(job.running(), [0], job.everything())
        filler.unlink()
        self.assertEqual(job.wait(30), [0], job.everything())
        run = Run(folder)
        self.assertTrue(run.weights())
        self.assertEqual(len(run.updates), run.summary["updates"])
        self.assertEqual(job.output().count(warning), 1)

    def test_the_run_goes_on(self):
        moments = {"start": self.full_at_the_start, "steady": self.full_in_the_steady_state,
                   "saving": self.full_while_saving}
        for schedule in SCHEDULES if FULL else ("2bw",):
            for moment in MOMENTS if FULL else ("saving",):
                with self.subTest(schedule=schedule, moment=moment):
                    moments[moment](schedule)
