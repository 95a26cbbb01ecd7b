"""Compares twobw's schedules with each other and with PyTorch's, on the CPU cores of this machine.

    .venv/bin/python benchmarks/pipeline.py [--stages 2] [--microbatches 2,8] [--only 2bw,torch-1f1b] [--json out.json]

Every contender runs once a round, in short runs one after the other, so that all see the same drift of the machine;
the table gives medians over the rounds. See README.md beside this file for what the rows and columns mean.
"""

import argparse
import dataclasses
import datetime
import importlib.metadata
import itertools
import json
import os
import pathlib
import platform
import re
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile

import job as jobs
import ranks
import torch_pipelining

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
OURS = ("2bw", "flush", "gpipe", "sequential")
ONE, TORCH_ONE = "one-worker", "torch-one"


class Failed(Exception):
    """A contender gave no result; the message says so in one sentence."""

    def __init__(self, sentence, word="failed"):
        super().__init__(f"{word}: {sentence}")


def run(command, timeout, cpus=None):
    """Runs a command in a process group of its own and returns its output; ends all its processes."""
    pin = (lambda: os.sched_setaffinity(0, cpus)) if cpus else None
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
                                   env=ranks.environment(threads=1), start_new_session=True, preexec_fn=pin)
    except OSError as error:
        raise Failed(f"{pathlib.Path(command[0]).name}: {error.strerror}") from None
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Failed(f"no result within {timeout:g} s") from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    return process.returncode, output, errors


def run_script(name, arguments, timeout):
    """Runs a script beside this file and returns the JSON object it prints last."""
    command = [sys.executable, str(HERE / name), *arguments, "--timeout", str(timeout)]
    code, output, errors = run(command, timeout + 20)
    lines = [line for line in output.splitlines() if line.startswith("{")]
    if not lines:
        raise Failed(ranks.last_sentence(errors, code))
    result = json.loads(lines[-1])
    for word in ("failed", "skipped"):
        if word in result:
            raise Failed(result[word], word)
    return result


def run_twobw(options, job, schedule, cpus):
    """Trains with the twobw binary and returns the figures of its summary, named as the baselines name theirs.

    One stage a core of `cpus`. Its steady state leaves out the first two updates and the last two, while the
    pipeline drains; hence two updates more.
    """
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "model.family": "gpt", "model.layers": job.layers, "model.width": job.width, "model.heads": job.heads,
            "model.vocab": job.vocab, "model.context": job.context, "model.tied": "false",
            "data.train": "synthetic", "data.validation": "synthetic",
            "pipeline.schedule": schedule, "pipeline.stages": len(cpus), "pipeline.microbatch": job.microbatch,
            "pipeline.microbatches": job.microbatches, "optimizer.name": "adamw", "optimizer.clip": "1.0",
            "train.updates": job.warmup + job.updates + 2, "train.eval_every": 0, "run_dir": f"{folder}/run"}
        command = [str(options.twobw), "train", *(f"{key}={value}" for key, value in settings.items())]
        code, output, errors = run(command, options.timeout, cpus=set(cpus))
        if code != 0:
            raise Failed(ranks.last_sentence(errors or output, code))
        try:
            summary = json.loads(pathlib.Path(folder, "run", "summary.json").read_text())
            return {"tokens_per_s": float(summary["tokens_per_s"]), "split": summary["split"],
                    "peak_bytes": [stage["peak_bytes"] for stage in summary["stages"]],
                    "utilisation": [stage["utilisation"] for stage in summary["stages"]]}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Failed(f"summary.json: {type(error).__name__}: {error}") from None


def contenders(options):
    """{name: (label, function of the job that runs it once)}, in the order of the table."""
    d = options.stages
    cpus = list(ranks.cores(d))

    def baseline(script, *arguments):
        return lambda job: run_script(script, [*torch_job(options, job).arguments(), *arguments], options.timeout)

    def pipelining(schedule):
        def run_once(job):
            job = torch_job(options, job)
            cuts = torch_pipelining.cuts_for(job, schedule, d, options.times())
            return run_script("torch_pipelining.py", [*job.arguments(), "--stages", str(d), "--schedule", schedule,
                                                      "--split", ",".join(map(str, cuts))], options.timeout)
        return run_once

    table = {name: (f"twobw {name}", lambda job, name=name: run_twobw(options, job, name, cpus)) for name in OURS}
    # Cores of one machine need not be equally fast: the worker alone takes them in turn, one a run.
    alone = itertools.cycle(cpus)
    table[ONE] = ("twobw, one worker", lambda job: run_twobw(options, job, "flush", [next(alone)]))
    table["torch-plain"] = (f"torch, one process, {d} threads", baseline("torch_plain.py", "--threads", str(d)))
    table["torch-ddp"] = (f"torch DDP, {d} ranks", baseline("torch_ddp.py", "--stages", str(d)))
    for schedule, (class_name, _, _) in torch_pipelining.SCHEDULES.items():
        table[f"torch-{schedule}"] = (f"torch {class_name}", pipelining(schedule))
    table[TORCH_ONE] = ("torch, one thread", baseline("torch_plain.py", "--threads", "1"))
    return table


def torch_job(options, job):
    return dataclasses.replace(job, onednn=options.times.choice()["onednn"])


class LayerTimes:
    """Layer times of the torch model, measured when first asked for and then kept."""

    def __init__(self, job, timeout):
        self._job, self._timeout, self._result = job, timeout, None

    def choice(self):
        if self._result is None:
            print("measuring torch's layers", file=sys.stderr)
            self._result = run_script("split.py", self._job.arguments(), self._timeout)
        return self._result

    def __call__(self):
        return self.choice()["times"][self.choice()["onednn"]]

    def describe(self):
        if self._result is None:
            return "not measured"
        without, with_ = (sum(times["compute"]) for times in self._result["times"])
        return (f"{'on' if self._result['onednn'] else 'off'}, the faster here: a microbatch takes "
                f"{1e3 * with_:.1f} ms of one core with it, {1e3 * without:.1f} ms without")


def output_of(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def describe_machine():
    model = re.search(r"^Model name:\s*(.+)$", output_of("lscpu"), re.MULTILINE)
    return f"{model.group(1) if model else 'CPU of unknown model'}, {os.cpu_count()} CPUs, {platform.machine()}"


def describe_versions(twobw):
    compiler = "c++"
    cache = twobw.parent / "CMakeCache.txt"
    if cache.exists():
        found = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.+)$", cache.read_text(), re.MULTILINE)
        compiler = found.group(1) if found else compiler
    try:
        torch = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        torch = "not installed"

    def version(program):
        return (output_of(program, "--version").splitlines() or ["not available"])[0].removeprefix("twobw ")

    return {"twobw": version(str(twobw)), "compiler": version(compiler), "torch": torch,
            "python": platform.python_version()}


def measure(options, chosen, lengths):
    """{(microbatches, name): results, one a round: figures or a Failed}.

    Every other round goes backwards through the contenders. One that failed in its first two rounds is not run again.
    """
    results = {(job.microbatches, name): [] for job in lengths for name in chosen}
    for number in range(options.rounds):
        for job in lengths:
            for name in list(chosen)[:: 1 if number % 2 == 0 else -1]:
                so_far = results[job.microbatches, name]
                if len(so_far) >= 2 and all(isinstance(result, Failed) for result in so_far):
                    so_far.append(so_far[-1])
                    continue
                try:
                    so_far.append(chosen[name][1](job))
                    outcome = f"{so_far[-1]['tokens_per_s']:.1f} tokens/s"
                except Failed as failure:
                    so_far.append(failure)
                    outcome = str(failure)
                print(f"round {number + 1} of {options.rounds}, m = {job.microbatches}: {name}: {outcome}",
                      file=sys.stderr, flush=True)
    return results


def rates(results):
    return [None if isinstance(result, Failed) else result["tokens_per_s"] for result in results]


def median_ratio(over, under, factor=1.0):
    """Median over rounds of the ratio within a round, where both have a figure; else None."""
    ratios = [a / (factor * b) for a, b in zip(over, under) if a is not None and b is not None]
    return statistics.median(ratios) if ratios else None


def summarise(options, chosen, results, microbatches):
    """One dictionary a contender: the numbers of its row."""
    def of(name):
        return rates(results.get((microbatches, name), []))

    rows = []
    for name, (label, _) in chosen.items():
        outcomes = results[microbatches, name]
        good = [result for result in outcomes if not isinstance(result, Failed)]
        bad = [str(result) for result in outcomes if isinstance(result, Failed)]
        row = {"microbatches": microbatches, "contender": name, "label": label, "rates": of(name), "failures": bad}
        if good:
            known = [result["tokens_per_s"] for result in good]
            row |= {"tokens_per_s": statistics.median(known), "min": min(known), "max": max(known),
                    "of_ideal": median_ratio(of(name), of(ONE), options.stages),
                    "of_torch_ideal": median_ratio(of(name), of(TORCH_ONE), options.stages),
                    "2bw_ratio": median_ratio(of("2bw"), of(name)), "split": good[-1]["split"],
                    "peak_bytes": [max(column) for column in zip(*(result["peak_bytes"] for result in good))],
                    "utilisation": good[-1].get("utilisation")}
        rows.append(row)
    return rows


def print_table(rows):
    def show(value, pattern):
        return "-" if value is None else format(value, pattern)

    header = ["", "tokens/s", "min..max", "of ideal", "of torch ideal", "2bw is", "MiB a stage*", "layers a stage"]
    lines = [header]
    notes = {}
    for index, row in enumerate(rows, 1):
        if "tokens_per_s" not in row:
            notes[index] = row["failures"][-1]
            lines.append([row["label"]] + [""] * (len(header) - 1))
            continue
        lines.append([
            row["label"], f"{row['tokens_per_s']:.1f}", f"{row['min']:.1f}..{row['max']:.1f}",
            show(row["of_ideal"], ".1%"), show(row["of_torch_ideal"], ".1%"),
            "-" if row["2bw_ratio"] is None else f"{row['2bw_ratio']:.2f}x",
            " ".join(f"{peak / 2**20:.0f}" for peak in row["peak_bytes"]), ",".join(map(str, row["split"])) or "-"])
        if row["failures"]:
            lines[-1][-1] += f"  ({len(row['failures'])} rounds {row['failures'][-1]})"
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    for index, line in enumerate(lines):
        cells = [line[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(line[1:-1], widths[1:-1])]
        text = "  ".join([*cells, line[-1]]) if index not in notes else f"{cells[0]}  {notes[index]}"
        print(text.rstrip())


def integers(text):
    return [int(part) for part in text.split(",")]


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = jobs.Job()
    parser.add_argument("--stages", type=int, default=2, help="workers, and cores used")
    parser.add_argument("--microbatches", type=integers, default=[2, 8], metavar="M,M",
                        help="microbatches an update; a table for each")
    parser.add_argument("--microbatch", type=int, default=default.microbatch, help="sequences a microbatch")
    for name in ("layers", "width", "heads", "vocab", "context"):
        parser.add_argument(f"--{name}", type=int, default=getattr(default, name))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, help="timed updates a run (default: 16 / microbatches, at least 3)")
    parser.add_argument("--warmup", type=int, default=default.warmup, help="updates before the clock starts")
    parser.add_argument("--only", help="contenders to run, by name, separated by commas (default: all)")
    parser.add_argument("--json", type=pathlib.Path, help="also write everything to this file")
    parser.add_argument("--twobw", type=pathlib.Path, default=ROOT / "build" / "twobw")
    parser.add_argument("--timeout", type=float, default=600, help="seconds a single run may take")
    parser.add_argument("--list", action="store_true", help="print the contenders' names and exit")
    options = parser.parse_args(arguments)
    table = contenders(options)
    if options.list:
        print("\n".join(f"{name:18} {label}" for name, (label, _) in table.items()))
        sys.exit(0)
    names = options.only.split(",") if options.only else list(table)
    unknown = [name for name in names if name not in table]
    if unknown:
        parser.error(f"--only {unknown[0]}: not one of {', '.join(table)}")
    return options, {name: entry for name, entry in table.items() if name in names}


def main():
    options, chosen = parse(sys.argv[1:])
    base = jobs.Job(layers=options.layers, width=options.width, heads=options.heads, vocab=options.vocab,
                    context=options.context, microbatch=options.microbatch, warmup=options.warmup)
    lengths = [dataclasses.replace(base, microbatches=m, updates=options.updates or max(3, 16 // m))
               for m in options.microbatches]
    options.twobw = options.twobw.resolve()
    options.times = LayerTimes(base, options.timeout)
    about = {"command": shlex.join(["python", "benchmarks/pipeline.py", *sys.argv[1:]]),
             "date": datetime.datetime.now().astimezone().isoformat(timespec="minutes"),
             "machine": describe_machine(), "versions": describe_versions(options.twobw)}
    results = measure(options, chosen, lengths)
    about["onednn"] = options.times.describe()
    model = (f"GPT, {base.layers} blocks of width {base.width}, {base.heads} heads, vocabulary {base.vocab}, untied, "
             f"context {base.context}; fp32, AdamW, gradients clipped")
    runs = f"{options.stages} workers, {options.rounds} rounds, {base.warmup} updates of warm-up"
    if options.stages > len(os.sched_getaffinity(0)):
        runs += "; MORE WORKERS THAN CPUS: these figures say nothing about schedules"

    print(f"command   {about['command']}\ndate      {about['date']}\nmachine   {about['machine']}")
    print("versions  " + ", ".join(f"{name} {version}" for name, version in about["versions"].items()))
    print(f"model     {model}\nruns      {runs}\noneDNN    (torch's rows) {about['onednn']}")
    tables = []
    for job in lengths:
        rows = summarise(options, chosen, results, job.microbatches)
        tables += rows
        print(f"\nm = {job.microbatches} microbatches of {job.microbatch} x {job.context} tokens, "
              f"{job.tokens_per_update} an update, {job.updates} timed updates a run\n")
        print_table(rows)
    print("\n* twobw: peak bytes of tensors a stage; torch: peak growth of each process's resident memory."
          f"\n  ideal: {options.stages} x twobw, one worker; torch ideal: {options.stages} x torch, one thread. "
          "Ratios are medians of those within a round.")
    if options.json:
        options.json.write_text(json.dumps({**about, "model": model, "stages": options.stages,
                                            "jobs": [dataclasses.asdict(job) for job in lengths], "results": tables},
                                           indent=1) + "\n")


if __name__ == "__main__":
    main()
