"""Processes of a baseline: starting them, pinning them, what they weigh, how they report. Needs no torch.

A baseline script calls start() before it imports torch: OpenMP reads its environment when torch is loaded, and on
some CPUs torch.set_num_threads() alone does not bind every library underneath.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

RANK = "RANK"
STORE = "BENCHMARK_STORE"
HOSTS = "BENCHMARK_HOSTS"  # a list of commands in JSON: what runs a rank on its host


def environment(threads):
    """The environment of a contender with `threads` compute threads, without GPUs."""
    return {**os.environ, "OMP_NUM_THREADS": str(threads), "CUDA_VISIBLE_DEVICES": "",
            "GLOO_SOCKET_IFNAME": os.environ.get("GLOO_SOCKET_IFNAME", "lo")}


def start(count, threads, timeout):
    """In the process the user started: runs this script as `count` ranks, and exits. In a rank: returns."""
    if RANK in os.environ:
        return
    with tempfile.TemporaryDirectory() as folder:
        errors = [open(os.path.join(folder, f"stderr.{rank}"), "w+") for rank in range(count)]
        store = {STORE: os.path.join(folder, "store"), "WORLD_SIZE": str(count)}
        hosts = json.loads(os.environ.get(HOSTS, "[]")) or [[]] * count
        processes = [subprocess.Popen([*hosts[rank], sys.executable, *sys.argv], stderr=errors[rank],
                                      env={**environment(threads), **store, RANK: str(rank)})
                     for rank in range(count)]
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the ranks end with this process
        try:
            failed = _watch(processes, timeout)
        finally:
            for process in processes:
                process.kill()
                process.wait()
        if not failed:
            sys.exit(0 if failed is not None else _report(f"no result within {timeout:g} s"))
        sentences = []
        for rank in failed:
            errors[rank].seek(0)
            text = errors[rank].read()
            sys.stderr.write(text)
            sentences.append(f"rank {rank}: " + last_sentence(text, processes[rank].returncode))
        causes = [sentence for sentence in sentences if "onnection" not in sentence]  # the others lost their peer
        sys.exit(_report((causes or sentences)[0]))


def _report(sentence):
    print(json.dumps({"failed": sentence}))
    return 1


def _watch(processes, timeout):
    """The ranks that failed first, none when all ended well; None when time ran out."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        codes = [process.poll() for process in processes]
        failed = [rank for rank, code in enumerate(codes) if code]
        if failed or all(code == 0 for code in codes):
            return failed
        time.sleep(0.05)
    return None


def last_sentence(text, code):
    """Why a process failed, in one line: the last line that looks like an error, else its last line."""
    lines = [re.sub(r"^\[rank\d+\]:", "", line).strip() for line in text.splitlines()]
    lines = [line for line in lines if line]
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b|error:|twobw:", line)]
    if code < 0 and not errors:
        return f"ended by {signal.Signals(-code).name}"
    if not lines:
        return f"exit code {code} and no message"
    return re.sub(r"\s+", " ", (errors or lines)[-1])[:200]


def rank():
    return int(os.environ.get(RANK, "0"))


def world_size():
    return int(os.environ.get("WORLD_SIZE", "1"))


def cores(count):
    """`count` CPUs to compute on, different physical cores first; CPUs come again when there are too few."""
    allowed = sorted(os.sched_getaffinity(0))

    def first_sibling(cpu):
        try:
            with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") as file:
                return int(re.match(r"\d+", file.read()).group())
        except (OSError, AttributeError):
            return cpu

    seen, primary, secondary = set(), [], []
    for cpu in allowed:
        core = first_sibling(cpu)
        (secondary if core in seen else primary).append(cpu)
        seen.add(core)
    order = primary + secondary
    return [order[index % len(order)] for index in range(count)]


def join_and_pin():
    """Joins the process group, then pins the calling thread, which does all the computing, to this rank's core.

    In this order, because threads inherit their creator's CPUs: Gloo's own threads must not be tied to the core that
    computes, where each transfer would wait for the computation.
    """
    import datetime

    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    own = cores(world_size())[rank()]
    dist.init_process_group("gloo", init_method=f"file://{os.environ[STORE]}", rank=rank(), world_size=world_size(),
                            timeout=datetime.timedelta(seconds=300))
    os.sched_setaffinity(0, {own})


def leave():
    """Ends this rank once all ranks have come here, without tearing the process group down.

    Its destructor races with the other ranks' and now and then aborts the process after all work is done.
    """
    import torch.distributed as dist

    dist.barrier()
    sys.stdout.flush()
    os._exit(0)


def _status(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(key + ":"))


class Memory:
    """Growth of this process's resident memory since the object was made, at its peak.

    The kernel's high-water mark (what getrusage calls maxrss, less what an earlier program of the same process used).
    Import everything before: a library's code is not counted then.
    """

    def __init__(self):
        try:
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")  # resets the mark
        except OSError:
            pass
        self._before = _status("VmRSS")

    def peak_bytes(self):
        return max(0, _status("VmHWM") - self._before)
