"""Trains GPT-2, BERT or Llama on one GPU with PyTorch and with twobw, taking turns, and prints how fast each was.

    .venv/bin/python benchmarks/gpu/compare.py [--models 124M,350M] [--rounds 3] [--batch 64] [--stages 2,4,4/8,8,8/15]
                                               [key=value ...]

Every contender makes updates of the same batch. The torch processes stay and compute only in their turn; twobw runs
anew each time, and its steady state counts. `key=value` are more settings for twobw. Close other programs first.

--stages 4 is a pipeline on the four quarters of the GPU, 4/8 one on four of its eighths while the other four are idle:
those do not compete for the power that the GPU may take. (An H200 gives 15 slices of 8 multiprocessors, not 16.)

Under the sequential schedule one slice works at a time, with the GPU's power and memory for itself. What the slices
would reach together if each were always busy at that rate is a yardstick for the others ("of alone").
"""

import argparse
import json
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading

from shapes import MODELS

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.append(str(HERE.parent))
from ranks import last_sentence  # noqa: E402
COMPILED = "torch.compile"


class Failed(Exception):
    """A contender gave no figures; the message says why in one sentence."""


class Torch:
    """torch_model.py as a process that has warmed up and waits for its turns."""

    def __init__(self, options, model, mode):
        self._errors = tempfile.TemporaryFile("w+")
        self._timeout = options.timeout
        arguments = ["--serve", "--model", model, "--mode", mode, "--device", options.device,
                     "--batch", options.batch, "--steps", options.steps]
        if options.microbatch:
            arguments += ["--microbatch", options.microbatch]
        self._process = subprocess.Popen([sys.executable, HERE / "torch_model.py", *map(str, arguments)], text=True,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors)
        self.about = self._answer()

    def _answer(self):
        late = threading.Event()
        watchdog = threading.Timer(self._timeout, lambda: (late.set(), self._process.kill()))
        watchdog.start()
        try:
            for line in self._process.stdout:
                if line.startswith("{"):
                    return json.loads(line)
        finally:
            watchdog.cancel()
        if late.is_set():
            raise Failed(f"no result within {self._timeout:g} s")
        self._errors.seek(0)
        raise Failed(last_sentence(self._errors.read(), self._process.wait()))

    def measure(self):
        try:
            print(file=self._process.stdin, flush=True)
        except BrokenPipeError:
            pass  # it has ended; its last words say why
        return self._answer()

    def close(self):
        self._process.kill()
        self._process.communicate()
        self._errors.close()


class Twobw:
    """A run of `twobw train` in every turn."""

    def __init__(self, options, model, schedule, stages, slices, microbatch):
        shape, m = MODELS[model], options.batch // microbatch
        settings = shape.settings | {"data.train": "synthetic", "data.validation": "synthetic",
                     "pipeline.schedule": schedule, "pipeline.stages": stages, "pipeline.microbatch": microbatch,
                     "pipeline.microbatches": m, "optimizer.name": "adamw",
                     "optimizer.clip": 1.0, "train.eval_every": 0,
                     "train.updates": options.steps + 4}  # the first two and the last two are not of the steady state
        if schedule == "2bw":  # an extra microbatch in flight for every boundary, where there are enough
            settings["pipeline.extra"] = max(0, min(stages - 1, m - stages))
        if options.device == "cuda":
            names = [f"cuda:0/{slices}.{i}" for i in range(stages)] if slices > 1 else ["cuda:0"]
            settings |= {"train.precision": "bf16", "devices": f"[{','.join(names)}]"}
        self._command = [options.twobw, "train", *(f"{key}={value}" for key, value in settings.items()),
                         *options.settings]
        self._timeout = options.timeout

    def measure(self):
        with tempfile.TemporaryDirectory() as folder:
            try:
                done = subprocess.run([*self._command, f"run_dir={folder}/run"], cwd=ROOT, capture_output=True,
                                      text=True, timeout=self._timeout)
                if done.returncode:
                    raise Failed(last_sentence(done.stderr or done.stdout, done.returncode))
                summary = json.loads(pathlib.Path(folder, "run", "summary.json").read_text())
            except subprocess.TimeoutExpired:
                raise Failed(f"no result within {self._timeout:g} s") from None
            except OSError as error:
                raise Failed(f"{pathlib.Path(error.filename).name}: {error.strerror}") from None
            except ValueError as error:
                raise Failed(f"summary.json: {error}") from None
        return {"tokens_per_s": summary["tokens_per_s"], "utilisation": summary["utilisation"],
                "loss": summary["loss"], "peak_bytes": sum(stage["peak_bytes"] for stage in summary["stages"]),
                "memory": [stage["memory"] for stage in summary["stages"]]}

    def close(self):
        pass


def microbatches(options, stages):
    return options.microbatches or (4 if stages <= 4 else 2 * stages)


def label_of(schedule, stages, slices):
    return f"twobw {schedule}, {stages}" + (f" of {slices}" if slices != stages else "") + " slices"


def contenders(options, model):
    """{label: function that starts it}, in the order of the table."""
    whole = options.microbatch or min(MODELS[model].microbatch, options.batch)
    table = {"torch eager": lambda: Torch(options, model, "eager"),
             COMPILED: lambda: Torch(options, model, "compile"),
             "twobw, one stage": lambda: Twobw(options, model, "flush", 1, 1, whole)}
    for stages, slices in options.stages:
        for schedule in options.schedules:
            table[label_of(schedule, stages, slices)] = (
                lambda schedule=schedule, stages=stages, slices=slices: Twobw(
                    options, model, schedule, stages, slices, options.batch // microbatches(options, stages)))
    return {label: start for label, start in table.items() if not options.only or
            any(word in label for word in options.only)}


def measure(options, model):
    """{label: figures, one a round}, {label: why it failed}, and what the torch processes say of themselves.

    Every other round goes backwards. A contender that failed is left out from then on.
    """
    alive, results, failures, about = {}, {}, {}, {}

    def attempt(label, action):
        try:
            return action()
        except Failed as failure:
            failures[label] = str(failure)
            print(f"{model}: {label}: failed: {failure}", file=sys.stderr, flush=True)
            return None

    try:
        for label, start in contenders(options, model).items():
            print(f"{model}: {label}: starting", file=sys.stderr, flush=True)
            results[label] = []
            contender = attempt(label, start)
            if contender:
                alive[label] = contender
                about |= getattr(contender, "about", {})
        for number in range(options.rounds):
            for label in list(alive)[:: 1 if number % 2 == 0 else -1]:
                figures = attempt(label, alive[label].measure)
                if figures is None:
                    alive.pop(label).close()
                    continue
                results[label].append(figures)
                print(f"{model}: round {number + 1}: {label}: {figures['tokens_per_s']:.0f} tokens/s", file=sys.stderr,
                      flush=True)
    finally:
        for contender in alive.values():
            contender.close()
    return results, failures, about


def rate_alone(results, stages, slices):
    """Tokens/s of the slices if each were always busy and as fast as when it works alone; None: not measured."""
    rounds = results.get(label_of("sequential", stages, slices))
    return statistics.median(figures["tokens_per_s"] / figures["utilisation"] for figures in rounds) if rounds else None


def print_table(options, model, results, failures):
    shape = MODELS[model]

    def rate(label):
        return statistics.median(figures["tokens_per_s"] for figures in results[label]) if results.get(label) else None

    alone = {label_of(schedule, stages, slices): rate_alone(results, stages, slices)
             for stages, slices in options.stages for schedule in options.schedules}

    print(f"\n{model}: {shape.layers} layers of width {shape.width}, {shape.heads} heads; {options.batch} sequences of "
          f"{shape.context} tokens an update\n")
    print(f"{'':31} {'tokens/s':>10} {'min..max':>17} {'MFU':>6} {'of compile':>10} {'GiB':>6} "
          f"{'busy':>8} {'of alone':>8} {'loss':>7}")
    for label, rounds in results.items():
        if not rounds:
            print(f"{label:31} failed: {failures[label]}")
            continue
        rates = [figures["tokens_per_s"] for figures in rounds]
        ratio = f"{rate(label) / rate(COMPILED):.3f}" if rate(COMPILED) else "-"
        busy = [figures["utilisation"] for figures in rounds if figures.get("utilisation") is not None]
        print(f"{label:31} {rate(label):10.0f} {f'{min(rates):.0f}..{max(rates):.0f}':>17} "
              f"{rate(label) * shape.flops_per_token / options.peak:6.1%} {ratio:>10} "
              f"{max(figures['peak_bytes'] for figures in rounds) / 2**30:6.1f} "
              f"{f'{statistics.median(busy):.3f}' if busy else '-':>8} "
              f"{f'{rate(label) / alone[label]:.3f}' if alone.get(label) else '-':>8} {rounds[-1]['loss']:7.3f}"
              + (f"  (then failed: {failures[label]})" if label in failures else ""))
    for stages, slices in options.stages:
        delayed, flushed = rate(label_of("2bw", stages, slices)), rate(label_of("flush", stages, slices))
        if delayed and flushed:
            m = microbatches(options, stages)
            print(f"{label_of('2bw', stages, slices)}, {m} microbatches of {options.batch // m}: {delayed / flushed:.3f} times flush "
                  f"(by arithmetic at most {1 + (stages - 1) / m:.3f})")


def print_memory(results):
    """Purposes of the stages' tensors, at their peaks."""
    runs = {label: rounds[-1]["memory"] for label, rounds in results.items() if rounds and "memory" in rounds[-1]}
    if not runs:
        return
    terms = list(next(iter(runs.values()))[0])
    print(f"\n{'GiB of the largest stage':31} " + " ".join(f"{term:>11}" for term in [*terms, "all"]))
    for label, stages in runs.items():
        largest = max(stages, key=lambda memory: sum(memory.values()))
        print(f"{label:31} " + " ".join(f"{size / 2**30:11.3f}" for size in [*largest.values(), sum(largest.values())]))


def parse():
    def words(text):
        return text.split(",")

    def slices(word):  # "4" or "4/8": how many are used, of how many there are
        used, _, made = word.partition("/")
        if not used.isdigit() or not (made or used).isdigit() or not 2 <= int(used) <= int(made or used):
            parser.error(f"--stages {word}: expected a number of slices from 2, or a part of them such as 4/8")
        return int(used), int(made or used)

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="*", metavar="key=value", help="more settings for twobw")
    parser.add_argument("--models", type=words, default=["124M"], help=", ".join(MODELS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10, help="timed updates a round")
    parser.add_argument("--batch", type=int, default=64, help="sequences an update")
    parser.add_argument("--microbatch", type=int, help="sequences at once for torch and for twobw in one stage "
                        "(default: what fits for the model)")
    parser.add_argument("--stages", type=lambda text: [slices(word) for word in text.split(",")],
                        default=[(2, 2), (4, 4), (4, 8), (8, 8), (8, 15)], help="slices of the GPU, for twobw's pipelines")
    parser.add_argument("--microbatches", type=int,
                        help="microbatches an update in a pipeline (default: 4, and twice as many as stages if those are more)")
    parser.add_argument("--schedules", type=words, default=["2bw", "flush", "gpipe", "sequential"])
    parser.add_argument("--only", type=words, help="contenders whose label has one of these words")
    parser.add_argument("--peak", type=float, default=989e12, help="FLOP/s of the GPU, for MFU (default: H100 and H200 "
                        "in bf16)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: to try this script")
    parser.add_argument("--twobw", type=pathlib.Path, default=ROOT / "build" / "twobw")
    parser.add_argument("--timeout", type=float, default=600, help="seconds one start or turn may take")
    parser.add_argument("--json", type=pathlib.Path, help="also write all figures to this file")
    options = parser.parse_intermixed_args()
    for model in options.models:
        if model not in MODELS:
            parser.error(f"--models {model}: not one of {', '.join(MODELS)}")
        if options.batch % (options.microbatch or min(MODELS[model].microbatch, options.batch)):
            parser.error(f"--batch {options.batch}: {model} takes microbatches of "
                         f"{options.microbatch or MODELS[model].microbatch}; give another --microbatch")
    for stages, _ in options.stages:
        if options.batch % microbatches(options, stages):
            parser.error(f"--batch {options.batch}: {microbatches(options, stages)} microbatches do not share it evenly")
    options.twobw = options.twobw.resolve()
    return options


def main():
    options = parse()
    everything = {}
    print(f"command   {shlex.join(['python', 'benchmarks/gpu/compare.py', *sys.argv[1:]])}", flush=True)
    for model in options.models:
        results, failures, about = measure(options, model)
        everything[model] = {"about": about, "results": results, "failures": failures}
        if about:
            print(f"machine   {about['device']}, torch {about['torch']}, CUDA {about['cuda']}")
        print_table(options, model, results, failures)
        print_memory(results)
        sys.stdout.flush()
    print("\nMedians over the rounds. MFU: (6 N + 12 layers width context) FLOP a token, over the peak of "
          f"{options.peak / 1e12:g} TFLOP/s;\nN without the positions. GiB: peak of tensors, all stages together. "
          "busy: the share of the time in which the\nslices compute. of alone: share of the rate that the slices would reach if "
          "each were always busy and as fast as when it works\nalone, as they do under the sequential schedule. loss: "
          "of the last update; torch and twobw draw different tokens,\nand 2bw's gradients are of weights one update "
          "older than the others'.")
    if options.json:
        options.json.write_text(json.dumps(everything, indent=1) + "\n")


if __name__ == "__main__":
    main()
