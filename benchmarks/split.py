"""Where to cut the model: layer times measured on one core, and the best contiguous split for them.

    python benchmarks/split.py [job arguments] prints {"onednn": 0 or 1, "times": [without oneDNN, with it]}: which of
    the two is faster here, and of each {"compute": [...], "step": [...]}, seconds for every layer: forward and backward
    of one microbatch, and clipping plus optimizer step of one update.
"""

import argparse
import dataclasses
import itertools
import json
import math
import os

import job as jobs
import ranks


def balance(compute, step, microbatches, rank_count, rank_of_stage):
    """First layer of every stage but the first, for len(rank_of_stage) stages placed on `rank_count` ranks.

    Minimises the forecast time of an update: what the busiest rank computes, plus a bubble of (rank_count - 1) times
    the slowest stage. With one stage a rank this is the split of least maximum.
    """
    layers, stages = len(compute), len(rank_of_stage)
    if stages > layers:
        raise ValueError(f"{layers} layers cannot be cut into {stages} stages")
    compute_to = [0.0, *itertools.accumulate(compute)]
    step_to = [0.0, *itertools.accumulate(step)]

    def forecast(cuts):
        bounds = [0, *cuts, layers]
        load, slowest = [0.0] * rank_count, 0.0
        for stage, (first, end) in enumerate(itertools.pairwise(bounds)):
            seconds = compute_to[end] - compute_to[first]
            load[rank_of_stage[stage]] += microbatches * seconds + step_to[end] - step_to[first]
            slowest = max(slowest, seconds)
        return max(load) + (rank_count - 1) * slowest

    if math.comb(layers - 1, stages - 1) <= 200_000:
        return list(min(itertools.combinations(range(1, layers), stages - 1), key=forecast))
    return _least_maximum([microbatches * c + s for c, s in zip(compute, step)], stages)


def _least_maximum(weights, parts):
    """Cuts of the split whose heaviest part is lightest, by dynamic programming; for models too deep to enumerate."""
    to = [0.0, *itertools.accumulate(weights)]
    best = {end: (to[end], []) for end in range(1, len(weights) + 1)}
    for part in range(2, parts + 1):
        best = {end: min((max(best[cut][0], to[end] - to[cut]), [*best[cut][1], cut]) for cut in range(part - 1, end))
                for end in range(part, len(weights) + 1)}
    return best[len(weights)][1]


def bounds(cuts, layers):
    """[first, last] of every stage, both included."""
    return [[first, end - 1] for first, end in itertools.pairwise([0, *cuts, layers])]


def measure(job, repeats=5):
    """Seconds of every layer, each the median over all layers of its kind and all repeats.

    Layers are timed in the order of training, not one over and over, so that caches are as cold as they will be, and
    in CPU time of the thread, which other load on the machine does not stretch.
    """
    import statistics
    from time import thread_time as now

    import gpt

    gpt.prepare(job)
    layers = gpt.build(job)
    optimizers = [gpt.optimizer(job, layer.parameters()) for layer in layers]
    compute, step = {}, {}
    for repeat in range(repeats + 1):
        tokens, targets = gpt.batch(job, repeat, 0)
        seconds = [0.0] * len(layers)
        x, stages = tokens, []
        for index, layer in enumerate(layers):
            x = x.detach().requires_grad_(index > 0)
            begin = now()
            y = layer(x)
            if index == len(layers) - 1:
                y = gpt.loss(y, targets)
            seconds[index] = now() - begin
            stages.append((x, y))
            x = y
        gradient = None
        for index in reversed(range(len(layers))):
            x, y = stages.pop()
            begin = now()
            y.backward(gradient)
            seconds[index] += now() - begin
            gradient = x.grad
        for index, layer in enumerate(layers):
            begin = now()
            gpt.clip(layer.parameters())
            optimizers[index].step()
            optimizers[index].zero_grad()
            if repeat > 0:
                step.setdefault(gpt.kind(job, index), []).append(now() - begin)
                compute.setdefault(gpt.kind(job, index), []).append(seconds[index])
    order = [gpt.kind(job, index) for index in range(job.cuttable_layers)]
    return {"compute": [statistics.median(compute[kind]) for kind in order],
            "step": [statistics.median(step[kind]) for kind in order]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    jobs.add_arguments(parser)
    parser.add_argument("--timeout", type=float, default=600)
    arguments = parser.parse_args()
    ranks.start(1, threads=1, timeout=arguments.timeout)
    os.sched_setaffinity(0, set(ranks.cores(1)))
    job = jobs.from_arguments(arguments)
    times = [measure(dataclasses.replace(job, onednn=onednn)) for onednn in (0, 1)]
    without, with_ = (sum(entry["compute"]) for entry in times)
    print(json.dumps({"onednn": int(with_ <= without), "times": times}))


if __name__ == "__main__":
    main()
