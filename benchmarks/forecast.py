#!/usr/bin/env python3
"""Holds forecasts against runs: profiles a model, simulates a pipeline of it, trains it, compares.

    .venv/bin/python benchmarks/forecast.py [--stages 2] [--shapes small,tall,wide] [--schedules 2bw,flush,gpipe]
                                            [--extra 0]

Each row is one model shape, number of stages and schedule. Rates are medians over the rounds, in which the profile is
measured again and all runs take turns, one core a stage; memory is the peak bytes of the tensors of a stage. Close
other programs first.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHAPES = {
    "small": dict(layers=6, width=256, heads=8, vocab=1024, context=128),
    "tall": dict(layers=12, width=256, heads=4, vocab=512, context=256),
    "wide": dict(layers=4, width=512, heads=8, vocab=8192, context=256),
}


def twobw(*arguments):
    done = subprocess.run([ROOT / "build/twobw", *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"twobw {' '.join(map(str, arguments))}\n{done.stderr}")
    return done.stdout


def settings(shape, schedule, stages, microbatches, updates, extra=0):
    return [*(f"model.{key}={value}" for key, value in SHAPES[shape].items()), "train.eval_every=0",
            "optimizer.warmup=2", f"pipeline.schedule={schedule}", f"pipeline.stages={stages}", "pipeline.microbatch=2",
            f"pipeline.microbatches={microbatches}", f"pipeline.extra={extra}", f"train.updates={updates}",
            f"devices=[{','.join(f'cpu:{core}' for core in range(stages))}]"]


def forecast(common, profile):
    return json.loads(twobw("simulate", *common, "--profile", profile, "--json"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stages", default="2", help="numbers of stages, separated by commas")
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--schedules", default="2bw,flush,gpipe")
    parser.add_argument("--microbatches", type=int, default=0, help="default: twice the stages")
    parser.add_argument("--extra", type=int, default=0, help="extra microbatches in flight for every boundary, under 2bw "
                        "and flush: they absorb variations of the times on a busy machine")
    parser.add_argument("--updates", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    rates, memory = {}, {}
    most = max(map(int, arguments.stages.split(",")))  # as many cores are busy while layers are measured
    with tempfile.TemporaryDirectory() as folder:
        for round_ in range(arguments.rounds):
            for shape in arguments.shapes.split(","):
                profile = os.path.join(folder, f"{shape}.json")
                twobw("profile", *settings(shape, "2bw", most, most, 2), "--sizes", "2", "--output", profile)
                for stages in map(int, arguments.stages.split(",")):
                    m = arguments.microbatches or 2 * stages
                    for schedule in arguments.schedules.split(","):
                        extra = 0 if schedule == "gpipe" else arguments.extra * (stages - 1)
                        common = settings(shape, schedule, stages, m, arguments.updates, extra)
                        expected = forecast(common, profile)
                        run = os.path.join(folder, "run")
                        twobw("train", *common, f"pipeline.split={json.dumps(expected['split'])}", f"run_dir={run}")
                        measured = json.loads(pathlib.Path(run, "summary.json").read_text())
                        key = (shape, stages, schedule)
                        rates.setdefault(key, []).append((expected["tokens_per_s"], measured["tokens_per_s"]))
                        memory[key] = [(stage["bytes"], real["peak_bytes"])
                                       for stage, real in zip(expected["memory"], measured["stages"])]
                        print(f"round {round_ + 1}: {shape} d={stages} {schedule}: forecast {rates[key][-1][0]:.0f}, "
                              f"measured {rates[key][-1][1]:.0f} tokens/s", file=sys.stderr)
    print(f"{'shape':8} {'d':>2} {'schedule':10} {'forecast':>10} {'measured':>10} {'off':>7}   memory off, by stage")
    for (shape, stages, schedule), pairs in rates.items():
        expected, measured = (statistics.median(column) for column in zip(*pairs))
        off = " ".join(f"{100 * (a / b - 1):+.1f}%" for a, b in memory[shape, stages, schedule])
        print(f"{shape:8} {stages:2} {schedule:10} {expected:10.0f} {measured:10.0f} "
              f"{100 * (expected / measured - 1):+6.1f}%   {off}")


if __name__ == "__main__":
    main()
