#!/usr/bin/env python3
"""Kills a run in several processes again and again, and goes on each time; at the end it must be the run that was
never killed, bit for bit.

    .venv/bin/python scripts/soak.py [--cycles 50] [--seed 0] [--processes 1,2,4] [--schedule 2bw] [--no-scan]

Two pipelines of two stages, which 1, 2 or 4 processes host, as chance will have it. Every cycle goes on from the newest
checkpoint (resume=auto), and after a random number of updates, or already at the start, a random process is killed
(SIGKILL) or hangs (SIGSTOP); all processes must end soon, and `twobw checkpoint verify` must find all checkpoints good.
In some cycles the disk of the run is full for random seconds around that moment (root only: it is mounted for that).
All the while a scanner connects to every port at which a process listens.
"""
import argparse
import contextlib
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from processes import (  # noqa: E402
    GRACE, Job, fill_disk, free_port, has_updates, listening, mount_disk, rank_environment)
from resume_test import exact_lines  # noqa: E402
from unauthenticated_peers_test import scan  # noqa: E402
from support import TINY, Run, program, words  # noqa: E402

WORKERS = 4


def settings_of(options, folder, updates):
    return {**TINY, "model.dropout": 0.1, "pipeline.schedule": options.schedule, "pipeline.stages": 2,
            "pipeline.replicas": 2, "pipeline.split": "[6, 6]", "optimizer.decay": "constant", "train.eval_every": 20,
            "train.updates": updates, "checkpoint.every_updates": 5, "network.heartbeat_timeout": options.heartbeat_timeout,
            "network.join_timeout": options.join_timeout, "run_dir": folder, "resume": "auto"}


def start(job, size, settings):
    command, port = [program("TWOBW_BINARY", "twobw"), "train", *words(settings)], free_port()
    for rank in range(size):
        job.start(command, rank_environment(rank, size, port) if size > 1 else ())


@contextlib.contextmanager
def scanned(job, scans):
    """While it lasts, connects to every port at which a process of the job listens, again and again."""
    over = threading.Event()

    def work():
        while not over.wait(0.01):
            for pid in job.engines():
                with contextlib.suppress(OSError):  # it has ended
                    scan(listening(pid), 1)

    scanner = threading.Thread(target=work)
    if scans:
        scanner.start()
    try:
        yield
    finally:
        over.set()
        if scans:
            scanner.join()


def newest_checkpoint(folder):
    return max((int(path.name[len("update-"):]) for path in (folder / "checkpoints").glob("update-????????")),
               default=0)


def made_updates(folder):
    metrics = folder / "metrics.jsonl"
    return metrics.read_text().count('"grad_norm"') if metrics.exists() else 0


def keep_full(disk, seconds):
    """Takes all room on the disk for so long, and any room that is freed meanwhile."""
    end = time.monotonic() + seconds
    filler = fill_disk(disk)
    while time.monotonic() < end:
        time.sleep(0.002)
        fill_disk(disk)
    filler.unlink()


@contextlib.contextmanager
def full_disk(chance, disk):
    """The disk is full for a random time. Entered at a random moment of that time or after it; left after it."""
    seconds = chance.uniform(0.1, 3)
    thread = threading.Thread(target=keep_full, args=(disk, seconds))
    thread.start()
    try:
        time.sleep(chance.uniform(0, 1.5 * seconds))
        yield seconds
    finally:
        thread.join()


def cycle(options, chance, folder, disk):
    """Resumes, strikes, waits for the end; returns the figures. `disk`: the disk of the folder, to be filled, or None."""
    size, which = chance.choice(options.processes), chance.choice((signal.SIGKILL,) * 3 + (signal.SIGSTOP,))
    victim = chance.randrange(size)
    at_the_start = chance.random() < 0.2
    target = 0 if at_the_start else made_updates(folder) + chance.randint(1, options.updates)
    full = 0
    with Job() as job, contextlib.ExitStack() as until_the_end, scanned(job, options.scan):
        start(job, size, settings_of(options, folder, 10**6))
        if not job.wait_for(lambda: has_updates(folder, target), within=120, what=f"update {target}"):
            raise AssertionError(f"a process ended by itself\n{job.everything()}")
        if disk and not at_the_start and chance.random() < 0.3:
            full = until_the_end.enter_context(full_disk(chance, disk))
            if len(job.running()) < size:
                raise AssertionError(f"a full disk ended a process\n{job.everything()}")
        time.sleep(chance.random() * (2 if at_the_start else 0.02))
        if size == 1:
            which = signal.SIGKILL  # nobody would miss it
        job.signal(victim, which)
        struck = time.monotonic()
        limit = max(options.heartbeat_timeout, options.join_timeout if at_the_start else 0) + GRACE
        codes = job.wait(limit, of=[rank for rank in range(size) if rank != victim])
        ended = time.monotonic() - struck
        if which == signal.SIGSTOP:
            job.signal(victim, signal.SIGCONT)
        codes += job.wait(limit, of=[victim])
        if 0 in codes:
            raise AssertionError(f"a process says that all went well\n{job.everything()}")
        job.assert_no_orphans()
    made, saved = made_updates(folder), newest_checkpoint(folder)
    if saved > 0:
        verified = subprocess.run([program("TWOBW_BINARY", "twobw"), "checkpoint", "verify", folder],
                                  capture_output=True, text=True)
        if verified.returncode != 0:
            raise AssertionError(f"a checkpoint is not good\n{verified.stdout}{verified.stderr}")
    when = "at the start" if at_the_start else "at work"
    return {"size": size, "signal": which.name, "when": when, "victim": victim, "seconds": ended, "made": made,
            "saved": saved, "disk": f"; the disk was full for {full:.1f} s" if full else ""}


def finish(options, folder, size, updates):
    with Job() as job, scanned(job, options.scan):
        start(job, size, settings_of(options, folder, updates))
        codes = job.wait(600)
        if any(codes):
            raise AssertionError(f"the run does not end well\n{job.everything()}")
    return Run(folder)


def soak(options, folder, disk):
    chance, figures, begin = random.Random(options.seed), [], time.monotonic()
    runs = disk or folder
    for number in range(options.cycles):
        figures.append(cycle(options, chance, runs / "killed", disk))
        print("cycle {:3}: {size} processes, {signal} to process {victim} {when}, after update {made}, saved {saved}; the "
              "others ended in {seconds:.1f} s{disk}".format(number + 1, **figures[-1]), flush=True)
    updates = newest_checkpoint(runs / "killed") + 20
    killed = finish(options, runs / "killed", max(options.processes), updates)
    whole = finish(options, folder / "whole", 1, updates)
    same = (exact_lines(killed) == exact_lines(whole) and
            (killed.folder / "model/model.safetensors").read_bytes() ==
            (whole.folder / "model/model.safetensors").read_bytes())

    print(f"\n{options.cycles} cycles of {options.schedule}, {updates} updates, {time.monotonic() - begin:.0f} s")
    # A process that dies before it has joined counts as missing.
    for name, when in sorted({(figure["signal"], figure["when"]) for figure in figures}):
        times = [figure["seconds"] for figure in figures
                 if (figure["signal"], figure["when"]) == (name, when) and figure["size"] > 1]
        if times:
            print(f"  {name} {when}: {len(times)} times in several processes; the others ended in "
                  f"{statistics.median(times):.1f} s (median), {max(times):.1f} s (longest)")
    again = [figure["made"] - figure["saved"] for figure in figures]
    print(f"  updates made again: {statistics.median(again):g} (median), {max(again)} (most)")
    print("  losses, norms, validation losses and weights: " +
          ("those of the run never killed, bit for bit" if same else "DIFFERENT from those of the run never killed"))
    return 0 if same else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=lambda text: [int(part) for part in text.split(",")], default=[1, 2, 4],
                        help="numbers of processes to choose from (1, 2, 4)")
    parser.add_argument("--updates", type=int, default=25, help="most updates of a cycle")
    parser.add_argument("--schedule", default="2bw")
    parser.add_argument("--heartbeat-timeout", type=float, default=3, help="seconds after which a process counts as dead")
    parser.add_argument("--join-timeout", type=float, default=15, help="seconds until all processes must be there")
    parser.add_argument("--scan", action=argparse.BooleanOptionalAction, default=True, help="a scanner on all ports")
    options = parser.parse_args()
    if any(size < 1 or WORKERS % size for size in options.processes):
        parser.error(f"{WORKERS} workers need 1, 2 or 4 processes")
    with tempfile.TemporaryDirectory(prefix="twobw_soak_") as folder:
        disk = pathlib.Path(folder, "disk")
        mounted = mount_disk(disk, "64m")
        if not mounted:
            print("no disk is filled: only root can mount one")
        try:
            return soak(options, pathlib.Path(folder), disk if mounted else None)
        except AssertionError as failure:
            print(f"FAILED: {failure}")
            return 1
        finally:
            if mounted:
                subprocess.run(["umount", disk], check=True)


if __name__ == "__main__":
    sys.exit(main())
