"""Baseline: DistributedDataParallel over Gloo, one process and one thread a rank, the whole model in each.

    python benchmarks/torch_ddp.py [job arguments] [--stages 2] prints one JSON object.

The ranks share the microbatches of an update, so the global batch is that of the other contenders.
"""

import argparse
import contextlib
import json
import sys
import time

import job as jobs
import ranks


def train(job):
    """Runs the job on all ranks; every rank calls it and gets the figures."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    import gpt

    gpt.prepare(job)
    memory = ranks.Memory()
    rank, world = dist.get_rank(), dist.get_world_size()
    model = DistributedDataParallel(gpt.build(job), gradient_as_bucket_view=True)
    optimizer = gpt.optimizer(job, model.parameters())
    own = range(rank, job.microbatches, world)
    losses, norms = torch.zeros(job.warmup + job.updates), []
    for update in range(job.warmup + job.updates):
        if update == job.warmup:
            dist.barrier()
            begin = time.perf_counter()
        for microbatch in own:
            tokens, targets = gpt.batch(job, update, microbatch)
            with contextlib.nullcontext() if microbatch == own[-1] else model.no_sync():
                loss = gpt.loss(model(tokens), targets) / len(own)
                loss.backward()
            losses[update] += loss.item() / world
        norms.append(gpt.clip(model.parameters()).item())
        optimizer.step()
        optimizer.zero_grad()
    dist.barrier()
    seconds = time.perf_counter() - begin
    dist.all_reduce(losses)
    peaks = [None] * world
    dist.all_gather_object(peaks, memory.peak_bytes())
    return {"tokens_per_s": job.updates * job.tokens_per_update / seconds, "seconds": seconds, "peak_bytes": peaks,
            "split": [], "losses": losses.tolist(), "norms": norms}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    jobs.add_arguments(parser)
    parser.add_argument("--stages", type=int, default=2, help="ranks")
    parser.add_argument("--timeout", type=float, default=600)
    arguments = parser.parse_args()
    job = jobs.from_arguments(arguments)
    if job.microbatches % arguments.stages != 0:
        print(json.dumps({"skipped": f"{job.microbatches} microbatches cannot be shared by {arguments.stages} ranks"}))
        sys.exit(0)
    ranks.start(arguments.stages, threads=1, timeout=arguments.timeout)

    ranks.join_and_pin()
    result = train(job)
    if ranks.rank() == 0:
        print(json.dumps(result))
    ranks.leave()


if __name__ == "__main__":
    main()
