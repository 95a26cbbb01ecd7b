#!/usr/bin/env python3
"""Is the plan that `plan: auto` takes the fastest? Lets it choose, then holds every combination against it.

    .venv/bin/python benchmarks/choice.py [--cores 8] [--batch 32] [--rounds 8] [--seconds 600] [key=value ...]

The combinations are all w x d = cores with every microbatch size b that fits, under 2bw, each split by `twobw plan` and
the profile that `plan: auto` made. All of them train at the same time, but in turns of a second or two, each stopped
while the others have theirs. So they share the good and the bad minutes of a machine whose speed changes. A round is
several turns of each; after --full rounds only those within 15% of the fastest go on. Which is the fastest in a round,
the other rounds say, since the best figure of many is also the luckiest.
--state keeps the plan and the rates, so that another call goes on with them. Other programs should leave these cores
alone.
"""
import argparse
import contextlib
import json
import math
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = dict(layers=4, width=512, heads=8, vocab=1024, context=128)
NEAR = 0.85
BEGIN = 4  # updates before anything is counted
ENDLESS = 1000000


def command(options, verb, *more):
    return [options.twobw, verb, *(f"model.{key}={value}" for key, value in MODEL.items()), "data.train=synthetic",
            "data.validation=synthetic", "train.eval_every=0", "pipeline.sync_updates=0", "optimizer.warmup=2",
            f"devices=[{','.join(f'cpu:{core}' for core in range(options.cores))}]", *options.settings, *more]


def planned(options, folder):
    """The plan that `plan: auto` took, its profile, and its output."""
    process = subprocess.Popen(command(options, "train", "plan=auto", "pipeline.microbatch=1",
                                       f"pipeline.microbatches={options.batch}", f"train.updates={options.length}",
                                       f"run_dir={folder}/planned"), text=True, stdout=subprocess.PIPE)
    said, chosen = [], False
    for line in process.stdout:
        if line.startswith("update"):  # it trains now, and a signal ends it in good order
            break
        if not chosen:
            said.append(line.rstrip())
            print(f"  {said[-1]}", file=sys.stderr, flush=True)
        chosen = chosen or line.startswith("planned:")
    process.send_signal(signal.SIGINT)
    process.communicate()
    if not chosen or process.returncode:
        sys.exit("choice: plan: auto took no plan")
    results = folder / "planned"
    return {"said": said, "config": (results / "config.yaml").read_text(), "profile": (results / "profile.json").read_text()}


def combinations(options):
    """{name: options of `twobw plan` for it}"""
    table = {}
    for replicas in range(options.cores, 0, -1):
        if options.cores % replicas or options.batch % replicas:
            continue
        stages, share = options.cores // replicas, options.batch // replicas
        for b in (1, 2, 4, 8, 16):
            m = share // b
            if share % b or m < stages:  # what 2bw needs to predict
                continue
            table[f"{replicas}x{stages} b={b}"] = {"replicas": replicas, "stages": stages, "microbatch": b, "microbatches": m}
    return table


def configuration(options, told, profile, file):
    """The plan of a combination; `twobw plan` chooses all other values, by the profile."""
    words = [*command(options, "plan"), "--profile", profile, "--schedule", "2bw", "--batch", options.batch, "--write", file,
             *(word for key, value in told.items() for word in (f"--{key}", value))]
    done = subprocess.run([*map(str, words)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"choice: {' '.join(map(str, words))}\n{done.stderr}")
    return file.read_text()


def pipeline_of(config):
    """The part of a configuration that combinations differ in."""
    return re.search(r"^pipeline:.*\n(?: .*\n)*", config, re.MULTILINE).group()


class Contender:
    """A run that never ends, and is stopped between its turns."""

    def __init__(self, options, config, folder):
        folder.mkdir(parents=True)
        file = folder / "config.yaml"
        file.write_text(config)
        self._metrics = folder / "run" / "metrics.jsonl"
        self._errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen([options.twobw, "train", file, f"run_dir={folder}/run", f"train.updates={ENDLESS}"],
                                         stdout=subprocess.DEVNULL, stderr=self._errors, text=True)
        while self.updates() < BEGIN:
            self._check()
            time.sleep(0.02)
        self._process.send_signal(signal.SIGSTOP)

    def updates(self):
        return self._metrics.read_bytes().count(b"\n") if self._metrics.exists() else 0

    def turn(self, seconds):
        """Lets it run this long, then to the end of an update; returns the time it took."""
        begin = time.monotonic()
        self._process.send_signal(signal.SIGCONT)
        time.sleep(seconds)
        before = self.updates()
        while self.updates() == before:
            self._check()
            time.sleep(0.005)
        self._process.send_signal(signal.SIGSTOP)
        return time.monotonic() - begin

    def _check(self):
        if self._process.poll() is not None:
            self._errors.seek(0)
            sys.exit(f"choice: {' '.join(map(str, self._process.args))}\n{self._errors.read()}")

    def close(self):
        self._process.kill()
        self._process.wait()
        self._errors.close()


def take_round(options, contenders, number):
    """{name: updates a second}"""
    names, before = list(contenders), {name: contender.updates() for name, contender in contenders.items()}
    took = dict.fromkeys(names, 0.0)
    for turn in range(options.turns):
        first = (number * options.turns + turn) % len(names)  # everybody is everybody's neighbour in time at some point
        for name in (names[first:] + names[:first])[:: 1 if turn % 2 == 0 else -1]:
            took[name] += contenders[name].turn(options.turn)
    return {name: (contenders[name].updates() - before[name]) / took[name] for name in names}


def against_plan(rates, name):
    """How fast it is in the rounds that it and the plan both had, the plan being 1; and the standard error of that."""
    logs = [math.log(a / b) for a, b in zip(rates[name], rates["plan"]) if a and b]
    error = statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.inf
    return math.exp(statistics.mean(logs)), error


def of_the_fastest(rates):
    """The plan's share of the speed of what the other rounds say is the fastest, its error, {name: rounds as that}."""
    logs, picked = [], {}
    for number in range(len(rates["plan"])):
        others = {name: figures[:number] + figures[number + 1:] for name, figures in rates.items() if figures[number]}
        best = max((name for name in others if any(others[name])), key=lambda name: against_plan(others, name)[0])
        picked[best] = picked.get(best, 0) + 1
        logs.append(math.log(rates["plan"][number] / rates[best][number]))
    return math.exp(statistics.mean(logs)), statistics.stdev(logs) / math.sqrt(len(logs)), picked


def show(options, rates):
    tokens = options.batch * MODEL["context"]
    print(f"\n{'w x d':12} {'rounds':>6} {'tokens/s':>9} {'min..max':>12} {'of the plan':>16}")
    for name in sorted(rates, key=lambda name: against_plan(rates, name), reverse=True):
        figures = [figure * tokens for figure in rates[name] if figure]
        spread, (ratio, error) = f"{min(figures):.0f}..{max(figures):.0f}", against_plan(rates, name)
        print(f"{name:12} {len(figures):6} {statistics.mean(figures):9.0f} {spread:>12} {ratio:8.3f} +- {error:.3f}")
    if len(rates["plan"]) < 2:
        return
    ratio, error, picked = of_the_fastest(rates)
    print(f"the plan runs at {ratio:.3f} +- {error:.3f} of the fastest: "
          + ", ".join(f"{name} ({times} rounds)" for name, times in sorted(picked.items(), key=lambda item: -item[1])))


def going_on(options, names, rates):
    """Who takes part in the next round."""
    number = len(rates["plan"])
    if number < options.full:
        return names
    ratios = {name: against_plan(rates, name)[0] for name in names}
    return [name for name in names if name == "plan" or
            rates[name][-1] and ratios[name] > NEAR * max(ratios.values())]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="*", metavar="key=value", help="more settings for all runs")
    parser.add_argument("--cores", type=int, default=8)
    parser.add_argument("--batch", type=int, default=32, help="sequences an update")
    parser.add_argument("--length", type=int, default=1200, help="updates of the run that is planned; trials may take a tenth")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--turns", type=int, default=8, help="of each, in a round")
    parser.add_argument("--turn", type=float, default=1.5, help="seconds")
    parser.add_argument("--full", type=int, default=2, help="rounds in which all take part")
    parser.add_argument("--seconds", type=float, default=3600, help="no round begins that would end later")
    parser.add_argument("--state", type=pathlib.Path, help="file that keeps plan and rates for the next call")
    parser.add_argument("--twobw", type=pathlib.Path, default=ROOT / "build" / "twobw")
    options = parser.parse_intermixed_args()
    if min(options.cores, options.batch, options.turns, options.turn) <= 0:
        parser.error("--cores, --batch, --turns and --turn must be more than 0")
    options.twobw = options.twobw.resolve()
    return options


def main():
    options = parse()
    begin, table = time.monotonic(), combinations(options)
    state = {"combinations": list(table), "plan": None, "rates": {}}
    if options.state and options.state.exists():
        state = json.loads(options.state.read_text())
        if state.get("combinations") != list(table):
            print(f"choice: {options.state} is of other combinations; give it the same --cores and --batch, or another file",
                  file=sys.stderr)
            sys.exit(2)

    def keep():
        if options.state:
            options.state.write_text(json.dumps(state))

    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = pathlib.Path(name)
        if not state["plan"]:
            state["plan"] = planned(options, folder)
            keep()
        print("\n".join(state["plan"]["said"]))
        profile = folder / "profile.json"
        profile.write_text(state["plan"]["profile"])
        runs = {"plan": state["plan"]["config"]}
        for name, told in table.items():
            config = configuration(options, told, profile, folder / "combination.yaml")
            if pipeline_of(config) == pipeline_of(runs["plan"]):  # it need not run twice
                print(f"which is {name}")
            else:
                runs[name] = config
        rates = state["rates"] = state["rates"] or {name: [] for name in runs}
        contenders = {}
        for name in going_on(options, list(runs), rates):
            contenders[name] = Contender(options, runs[name], folder / "runs" / name.replace(" b=", "-"))
            stack.callback(contenders[name].close)
        while len(rates["plan"]) < options.rounds:
            contenders = {name: contenders[name] for name in going_on(options, list(contenders), rates)}
            if time.monotonic() - begin + len(contenders) * options.turns * options.turn > options.seconds:
                break
            figures = take_round(options, contenders, len(rates["plan"]))
            for name in runs:
                rates[name].append(figures.get(name))
            keep()
            print(f"round {len(rates['plan'])}: " + ", ".join(
                f"{name} {figure * options.batch * MODEL['context']:.0f}" for name, figure in figures.items()),
                file=sys.stderr, flush=True)
    if rates["plan"]:
        show(options, rates)


if __name__ == "__main__":
    main()
