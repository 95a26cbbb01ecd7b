"""Runs of several processes: started one by one as torchrun would start them, or by a launcher, and watched to their
end.

Every process of a job inherits a mark in its environment, so that whatever a job has started is found, wherever it
went: nothing of it may stay when the job has ended.
"""
import contextlib
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from subprocess import DEVNULL, Popen

from support import TestCase, program, words

MARK = "TWOBW_TEST_JOB"
GRACE = 15  # seconds added to the timeouts of a run: this machine may be busy
# Variables of launchers; tests may themselves run under one.
OF_LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "GROUP_", "ROLE_", "TORCHELASTIC_", "OMPI_", "PMIX_", "PMI_",
                "SLURM_", "TWOBW_JOB_TOKEN")
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--no-python"]


def free_port(address="127.0.0.1"):
    """Not one that the system gives to connections, which may take it before the job does."""
    while True:
        with socket.socket() as probe:
            port = random.SystemRandom().randrange(20000, 32768)
            try:
                probe.bind((address, port))
            except OSError:
                continue
            return port


def mount_disk(folder, size):
    """Mounts an empty disk of this size on a new folder; false if only root may."""
    folder.mkdir()
    return subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder],
                          capture_output=True).returncode == 0


def fill_disk(disk):
    """Takes all the room that is left, in a file that is returned."""
    filler = disk / "filler"
    with open(filler, "ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    return filler


def clean_environment():
    return {name: value for name, value in os.environ.items() if not name.startswith(OF_LAUNCHERS)}


def rank_environment(rank, size, port, address="127.0.0.1", local_size=None):
    """The environment of a rank under torchrun without a store."""
    local_size = local_size or size
    return {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank % local_size),
            "LOCAL_WORLD_SIZE": str(local_size), "MASTER_ADDR": address, "MASTER_PORT": str(port)}


def mpirun(size):
    """The command that starts as many processes on this host; nothing without Open MPI."""
    path = shutil.which("mpirun")
    return path and [path, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(size)]


class Job:
    """Processes that belong together. As a context it kills the remaining ones at its end."""

    def __init__(self):
        self.mark = uuid.uuid4().hex
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="twobw_job_"))
        self.processes, self.ended_at = [], []

    def start(self, command, environment=()):
        """Its place in the list is returned."""
        number = len(self.processes)
        variables = {**clean_environment(), **dict(environment), MARK: self.mark}
        with open(self.folder / f"out.{number}", "w") as out, open(self.folder / f"err.{number}", "w") as err:
            self.processes.append(Popen([str(word) for word in command], stdin=DEVNULL, stdout=out, stderr=err,
                                        env=variables, start_new_session=True))
        self.ended_at.append(None)
        return number

    def output(self, number=0):
        return (self.folder / f"out.{number}").read_text(errors="replace")

    def errors(self, number=0):
        return (self.folder / f"err.{number}").read_text(errors="replace")

    def everything(self):
        """What all have printed, for the message of a test that fails."""
        return "\n".join(f"--- process {number}, exit {process.poll()}\n{self.output(number)}{self.errors(number)}"
                         for number, process in enumerate(self.processes))

    def running(self):
        alive = []
        for number, process in enumerate(self.processes):
            if process.poll() is None:
                alive.append(number)
            elif self.ended_at[number] is None:
                self.ended_at[number] = time.monotonic()
        return alive

    def wait(self, within, of=None):
        """Exit codes of all, or of some, when they have ended; an AssertionError where they have not."""
        deadline = time.monotonic() + within
        of = range(len(self.processes)) if of is None else of
        while set(self.running()) & set(of):
            if time.monotonic() > deadline:
                late = sorted(set(self.running()) & set(of))
                raise AssertionError(f"after {within:g} s processes {late} still run\n{self.everything()}")
            time.sleep(0.01)
        return [self.processes[number].returncode for number in of]

    def wait_for(self, condition, within=60, what="what was waited for"):
        """True when it holds; False when a process has ended before it did."""
        deadline = time.monotonic() + within
        while not condition():
            if len(self.running()) < len(self.processes):
                return condition()
            if time.monotonic() > deadline:
                raise AssertionError(f"{what} did not come within {within:g} s\n{self.everything()}")
            time.sleep(0.005)
        return True

    def signal(self, number, which):
        self.processes[number].send_signal(which)

    def descendants(self):
        """{pid: name} of everything that carries the mark, launchers and those they started."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if f"{MARK}={self.mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                        found[int(entry.name)] = (entry / "comm").read_text().strip()
                except OSError:
                    pass  # it has ended, or is another user's
        return found

    def engines(self):
        """Those of them that compute."""
        return sorted(pid for pid, name in self.descendants().items() if name.startswith("twobw"))

    def assert_no_orphans(self, within=5):
        """Nothing is left of a job whose processes have ended."""
        deadline = time.monotonic() + within
        while left := self.descendants():
            if time.monotonic() > deadline:
                raise AssertionError(f"processes stay behind: {left}\n{self.everything()}")
            time.sleep(0.02)

    def close(self):
        for pid in self.descendants():
            for which in (signal.SIGKILL, signal.SIGCONT):
                try:
                    os.kill(pid, which)
                except ProcessLookupError:
                    pass
        for process in self.processes:
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def listening(pid):
    """[(address, port)] where a process listens for TCP connections, of its own network namespace."""
    sockets = set()
    for descriptor in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(descriptor)
        except OSError:
            continue
        if target.startswith("socket:["):
            sockets.add(target[len("socket:["):-1])
    found = []
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        try:
            lines = pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
        except OSError:
            continue
        for fields in map(str.split, lines):
            if fields[3] == "0A" and fields[9] in sockets:
                address, port = fields[1].split(":")
                found.append((readable(address, family), int(port, 16)))
    return sorted(found)


def has_updates(folder, count):
    """Whether the metrics of a run have that many."""
    metrics = pathlib.Path(folder, "metrics.jsonl")
    return metrics.exists() and metrics.read_text().count('"grad_norm"') >= count


def has_checkpoint(folder, after=0):
    """Whether a run has saved one of that update or a later one."""
    return any(int(path.name[len("update-"):]) >= after
               for path in pathlib.Path(folder, "checkpoints").glob("update-????????"))


def is_saving(folder):
    return any(pathlib.Path(folder, "checkpoints").glob("*.partial"))


def readable(digits, family):
    """An address as the kernel's tables have it: words of 32 bits in the machine's order."""
    words_ = [int(digits[at:at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(digits), 8)]
    return socket.inet_ntop(family, b"".join(words_))


class ProcessesTest(TestCase):
    """Tests whose runs have several processes."""

    def job(self):
        job = Job()
        self.addCleanup(job.close)
        return job

    def start_ranks(self, size, *arguments, settings=(), binary=None, environment=(), only=None):
        """The ranks of one run on this host, each a process of its own; `only` some of them. A list has what each
        rank is given."""
        job, port = self.job(), free_port()
        binary = binary or program("TWOBW_BINARY", "twobw")
        for rank in range(size) if only is None else only:
            path = binary[rank] if isinstance(binary, list) else binary
            job.start([path, *arguments, *words(dict(settings[rank] if isinstance(settings, list) else settings))],
                      {**rank_environment(rank, size, port), **dict(environment)})
        return job

    def run_ranks(self, size, *arguments, settings=(), within=120, **options):
        """To their end, which must be a good one; ranks but 0 print nothing."""
        job = self.start_ranks(size, *arguments, settings=settings, **options)
        self.assertEqual(job.wait(within), [0] * size, job.everything())
        for rank in range(size):
            self.assertEqual(job.errors(rank), "")
            if rank > 0:
                self.assertEqual(job.output(rank), "", f"rank {rank} prints")
        job.assert_no_orphans()
        return job

    def run_launched(self, launcher, *arguments, settings=(), within=120):
        """The same under a launcher, whose own words are left alone."""
        job = self.job()
        command = [*launcher, program("TWOBW_BINARY", "twobw"), *arguments, *words(dict(settings))]
        job.start(command)
        self.assertEqual(job.wait(within), [0], job.everything())
        job.assert_no_orphans()
        return job
