"""Baseline: plain PyTorch in one process, gradients accumulated over the microbatches.

    python benchmarks/torch_plain.py [job arguments] [--threads 2] prints one JSON object.
"""

import argparse
import json
import os
import time

import job as jobs
import ranks


def train(job):
    """Runs the job in this process and returns its figures; losses and norms are those of every update, in order."""
    import gpt

    gpt.prepare(job)
    memory = ranks.Memory()
    model = gpt.build(job)
    optimizer = gpt.optimizer(job, model.parameters())
    losses, norms = [], []
    for update in range(job.warmup + job.updates):
        if update == job.warmup:
            begin = time.perf_counter()
        total = 0.0
        for microbatch in range(job.microbatches):
            tokens, targets = gpt.batch(job, update, microbatch)
            loss = gpt.loss(model(tokens), targets) / job.microbatches
            loss.backward()
            total += loss.item()
        norms.append(gpt.clip(model.parameters()).item())
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total)
    seconds = time.perf_counter() - begin
    return {"tokens_per_s": job.updates * job.tokens_per_update / seconds, "seconds": seconds,
            "peak_bytes": [memory.peak_bytes()], "split": [], "losses": losses, "norms": norms}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    jobs.add_arguments(parser)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=600)
    arguments = parser.parse_args()
    ranks.start(1, threads=arguments.threads, timeout=arguments.timeout)
    os.sched_setaffinity(0, set(ranks.cores(arguments.threads)))

    import torch

    torch.set_num_threads(arguments.threads)
    print(json.dumps(train(jobs.from_arguments(arguments))))


if __name__ == "__main__":
    main()
