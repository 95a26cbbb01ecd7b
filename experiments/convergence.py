#!/usr/bin/env python3
"""The convergence study: trains the rows of a figure with twobw, one after the other, and keeps their curves.

    experiments/convergence.py sweep  --data corpus      learning rates of flush and 2bw (25M, 85M; AdamW, Muon)
    experiments/convergence.py main   --data corpus      rules against each other, each at its best learning rate
    experiments/convergence.py clock  --data corpus      loss against wall-clock time, m = 4, 8, 16
    experiments/convergence.py shapes --data corpus      eight stages; replicas
    experiments/convergence.py long   --data corpus      124M parameters on all of enwik8

`--data` has enwik8-24m.gz (the first 24,000,000 bytes of enwik8; the last million is held out) or, for `long`,
enwik8.xz (all of it; the last five million are the test). Every row needs one GPU, cut into slices. A row that has a
file in experiments/results already is not run again; `--row PATTERN` runs those whose name fits.

`experiments/convergence.py report` prints the tables behind docs/explanation/convergence.md and draws its figure of
loss against time, both from the files in experiments/results.
"""
import argparse
import fnmatch
import gzip
import json
import lzma
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "experiments" / "results"

MODELS = {
    "25M": {"model.layers": 8, "model.width": 512, "model.heads": 8, "train.updates": 2000},
    "85M": {"model.layers": 12, "model.width": 768, "model.heads": 12, "train.updates": 1500},
    "124M": {"model.layers": 12, "model.width": 896, "model.heads": 14, "train.updates": 5000},
}
COMMON = {
    "model.vocab": 256, "model.context": 256, "optimizer.warmup": 100, "optimizer.betas": "[0.9,0.95]",
    "optimizer.weight_decay": 0.1, "optimizer.clip": 1, "train.precision": "bf16",
}
BEST = {("25M", "adamw"): 1e-3, ("85M", "adamw"): 6e-4, ("25M", "muon"): 8e-3, ("85M", "muon"): 4e-3}
SEQUENCES = 64  # in an update: 16,384 bytes


def even_split(layers, stages):
    """The model's layers are embedding, five for each block, head."""
    count = 5 * layers + 2
    return [count * (r + 1) // stages - count * r // stages for r in range(stages)]


def row(model, rule, m=8, stages=4, replicas=1, lr=None, optimizer="adamw", seed=0, **changes):
    settings = {**COMMON, **MODELS[model], "train.seed": seed}
    settings["optimizer.name"] = optimizer
    settings["optimizer.lr"] = lr or BEST[model, optimizer]
    settings["pipeline.stages"], settings["pipeline.replicas"] = stages, replicas
    settings["pipeline.microbatches"] = m
    settings["pipeline.microbatch"] = SEQUENCES // m // replicas
    settings["pipeline.split"] = even_split(settings["model.layers"], stages)
    workers = stages * replicas
    settings["devices"] = [f"cuda:0/{workers}"] if replicas == 1 else [f"cuda:0/{workers}.{i}" for i in range(workers)]
    settings["train.eval_every"] = max(1, settings["train.updates"] // 20)
    # 800 sequences, about 200 KB.
    settings["train.eval_microbatches"] = 800 // settings["pipeline.microbatch"]
    settings["pipeline.schedule"] = "flush" if rule == "flush" else "2bw"
    if rule == "paper":
        settings["pipeline.predict"] = "false"
    elif rule == "all-predicted":
        settings["pipeline.step_slack"] = 1000
    settings |= changes
    name = f"{model}-{optimizer}-{rule}-d{stages}-m{m}" + (f"-w{replicas}" if replicas > 1 else "")
    name += f"-lr{settings['optimizer.lr']:g}-seed{seed}"
    name += "".join(f"-{key.rpartition('.')[2]}{value}" for key, value in changes.items())
    return name, settings


def figure(name):
    rows = []
    if name == "sweep":
        for model, optimizer, rates in (("25M", "adamw", (5e-4, 2e-3, 4e-3)), ("85M", "adamw", (3e-4, 1.2e-3, 2.4e-3)),
                                        ("25M", "muon", (5e-4, 2e-3, 4e-3, 8e-3)), ("85M", "muon", (3e-4, 1.2e-3, 2.4e-3))):
            for lr in rates:
                for rule in ("flush", "predicted"):
                    rows.append(row(model, rule, lr=lr, optimizer=optimizer))
    elif name == "main":
        for seed in range(3):
            for model in ("25M", "85M"):
                rows.append(row(model, "flush", seed=seed))
                for m in (8, 16):
                    rows.append(row(model, "predicted", m=m, seed=seed))
                for rule in ("flush", "predicted"):
                    rows.append(row(model, rule, optimizer="muon", seed=seed))
        for model in ("25M", "85M"):
            rows.append(row(model, "predicted", m=4))
            for rule in ("all-predicted", "paper"):
                rows.append(row(model, rule))
    elif name == "clock":
        for m in (4, 8, 16):
            for rule in ("flush", "predicted"):
                rows.append(row("25M", rule, m=m))
        # The updates that fit into the time of 2000 flush updates.
        for m, updates in ((4, 2900), (8, 2440), (16, 2270)):
            rows.append(row("25M", "predicted", m=m, **{"train.updates": updates}))
    elif name == "shapes":
        for rule in ("flush", "predicted"):
            for m in (8, 16, 32):
                rows.append(row("25M", rule, stages=8, m=m))
        for replicas in (1, 2, 4):
            rows.append(row("25M", "predicted", stages=2, replicas=replicas, m=8))
        rows.append(row("25M", "flush", stages=2, m=8))
    elif name == "long":
        for rule in ("flush", "predicted"):
            name, settings = row("124M", rule, lr=6e-4)
            # The whole test part: 19,531 sequences.
            rows.append((name, settings | {"train.eval_every": 1000, "train.eval_microbatches": 2441}))
    return rows


def prepare(data, long, folder):
    """Training and held-out text, as files."""
    if long:
        text = lzma.open(data / "enwik8.xz").read()
        held_out = 5_000_000
    else:
        text = gzip.open(data / "enwik8-24m.gz").read()
        held_out = 1_000_000
    (folder / "train").write_bytes(text[:-held_out])
    (folder / "validation").write_bytes(text[-held_out:])


def run(name, settings, folder, binary):
    directory = folder / "run"
    words = [f"{key}={json.dumps(value) if isinstance(value, list) else value}" for key, value in settings.items()]
    begin = time.time()
    process = subprocess.run([binary, "train", *words, f"data.train={folder / 'train'}",
                              f"data.validation={folder / 'validation'}", f"run_dir={directory}"],
                             capture_output=True, text=True)
    if process.returncode != 0:
        print(f"{name}: {process.stdout[-500:]}{process.stderr[-500:]}", file=sys.stderr)
        return None
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    updates = [line for line in lines if "loss" in line]
    summary = json.loads((directory / "summary.json").read_text())
    result = {
        "name": name,
        "settings": {key: value for key, value in settings.items()},
        "validation": [[line["update"], round(line["validation_loss"], 5)] for line in lines
                       if "validation_loss" in line],
        "loss": [[line["update"], round(line["loss"], 4)] for line in updates[::50]],
        "tokens_per_s": summary["tokens_per_s"],
        "final": summary["validation_loss"],
        "wall_s": round(time.time() - begin, 1),
    }
    return result


def load(results):
    return {path.stem: json.loads(path.read_text()) for path in sorted(results.glob("*.json"))}


def report(results):
    """A table for each model and optimizer: rules and m down, seeds across, against flush of the same seed."""
    groups = {}
    for result in load(results).values():
        s = result["settings"]
        if "-updates" in result["name"]:
            continue
        model, optimizer, rule = result["name"].split("-d")[0].split("-", 2)
        key = model, optimizer, s["pipeline.stages"], s["optimizer.lr"]
        line = rule, s["pipeline.microbatches"], s["pipeline.replicas"]
        groups.setdefault(key, {}).setdefault(line, {})[s["train.seed"]] = result
    for (model, optimizer, stages, lr), lines in sorted(groups.items()):
        print(f"\n{model}, {optimizer}, {stages} stages, lr {lr:g}\n")
        seeds = sorted({seed for line in lines.values() for seed in line})
        print("| | m | w | " + " | ".join(f"seed {seed}" for seed in seeds) + " | mean | tokens/s |")
        print("|---" * (len(seeds) + 5) + "|")
        flush = {}
        for (rule, m, _), line in lines.items():
            if rule == "flush" and (m == 8 or not flush):
                flush = {seed: result["final"] for seed, result in line.items()}
        for (rule, m, w), line in sorted(lines.items()):
            finals = [f"{line[s]['final']:.4f}" if s in line else "" for s in seeds]
            mean = sum(r["final"] for r in line.values()) / len(line)
            common = [s for s in line if s in flush]
            versus = ""
            if common and rule != "flush":
                ours = sum(line[s]["final"] for s in common) / len(common)
                theirs = sum(flush[s] for s in common) / len(common)
                versus = f" ({100 * (ours / theirs - 1):+.2f}%)"
            speeds = sorted(r["tokens_per_s"] for r in line.values() if r["tokens_per_s"])
            speed = f"{speeds[len(speeds) // 2] / 1e3:.0f}K" if speeds else ""
            print(f"| {rule} | {m} | {w} | " + " | ".join(finals) + f" | {mean:.4f}{versus} | {speed} |")


COLORS = {4: "#1b6ca8", 8: "#c8553d", 16: "#4f772d"}


def draw_clock(results, path):
    """Validation loss over the seconds that training took, 25M parameters, seed 0: 2bw solid, flush dashed.

    2bw makes as many updates as fit into the time of flush."""
    curves = []
    for name, result in load(results).items():
        s = result["settings"]
        flush = name.startswith("25M-adamw-flush-d4-") and name.endswith("lr0.001-seed0")
        if not flush and not name.startswith("25M-adamw-predicted-d4-") or not flush and "-updates" not in name:
            continue
        m, rate = s["pipeline.microbatches"], result["tokens_per_s"]
        points = [(update * SEQUENCES * 256 / rate, loss) for update, loss in result["validation"]]
        curves.append((m, s["pipeline.schedule"], points))
    width, height, left, bottom, low, high = 720, 380, 60, 50, 1.1, 1.7
    longest = max(points[-1][0] for _, _, points in curves)
    x = lambda seconds: left + (width - left - 20) * seconds / longest
    y = lambda loss: 20 + (height - bottom - 20) * (high - min(loss, high)) / (high - low)
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="white"/>']
    for i in range(7):
        loss = low + 0.1 * i
        svg.append(f'<line x1="{left}" x2="{width - 20}" y1="{y(loss):.1f}" y2="{y(loss):.1f}" stroke="#ddd"/>'
                   f'<text x="{left - 8}" y="{y(loss) + 4:.1f}" text-anchor="end">{loss:.2f}</text>')
    for seconds in range(0, int(longest) + 1, 10):
        svg.append(f'<text x="{x(seconds):.1f}" y="{height - bottom + 18}" text-anchor="middle">{seconds}</text>')
    svg.append(f'<text x="{(left + width) / 2}" y="{height - 12}" text-anchor="middle">seconds</text>'
               f'<text x="{left}" y="14">validation loss, nats a byte</text>')
    for i, (m, schedule, points) in enumerate(sorted(curves)):
        line = " ".join(f"{x(seconds):.1f},{y(loss):.1f}" for seconds, loss in points if loss <= high)
        dashes = ' stroke-dasharray="6 4"' if schedule == "flush" else ""
        svg.append(f'<polyline points="{line}" fill="none" stroke="{COLORS[m]}" stroke-width="2"{dashes}/>')
        top = 40 + 18 * i
        svg.append(f'<line x1="{width - 270}" x2="{width - 235}" y1="{top}" y2="{top}" stroke="{COLORS[m]}" '
                   f'stroke-width="2"{dashes}/><text x="{width - 228}" y="{top + 4}">{schedule}, m = {m}: '
                   f'{points[-1][1]:.4f} in {points[-1][0]:.1f} s</text>')
    path.write_text("\n".join([*svg, "</svg>"]) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", choices=("sweep", "main", "clock", "shapes", "long", "report"))
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--row", default="*", help="only rows whose name fits this pattern")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no row after this many seconds")
    parser.add_argument("--binary", default=str(ROOT / "build" / "twobw"))
    parser.add_argument("--list", action="store_true", help="print the rows and their settings")
    a = parser.parse_args()
    if a.figure == "report":
        report(a.results)
        draw_clock(a.results, ROOT / "docs" / "images" / "convergence-clock.svg")
        return
    rows = [(name, settings) for name, settings in figure(a.figure) if fnmatch.fnmatch(name, a.row)]
    if a.list:
        for name, settings in rows:
            print(name, " ".join(f"{key}={value}" for key, value in settings.items()))
        return
    a.results.mkdir(parents=True, exist_ok=True)
    begin = time.time()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        prepare(a.data, a.figure == "long", folder)
        for name, settings in rows:
            path = a.results / f"{name}.json"
            if path.exists() or time.time() - begin > a.seconds:
                continue
            result = run(name, settings, folder, a.binary)
            if result is None:
                continue
            path.write_text(json.dumps(result, indent=None) + "\n")
            print(f"{name}: validation {result['final']:.4f}, {result['tokens_per_s'] / 1e3:.0f}K tokens/s, "
                  f"{result['wall_s']:.0f} s", flush=True)


if __name__ == "__main__":
    main()
