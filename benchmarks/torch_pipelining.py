"""Baseline: torch.distributed.pipelining over Gloo, one process and one thread a rank.

    python benchmarks/torch_pipelining.py [job arguments] [--stages 2] [--schedule 1f1b] [--split 3,7] prints one JSON
    object. --split gives the first layer of every stage but the first; without it the layers are measured first.

Schedules other than 1f1b and gpipe put two stages on every rank, so --split then cuts 2 * stages - 1 times.
"""

import argparse
import json
import time

import job as jobs
import ranks
import split

# name: the class in torch.distributed.pipelining, stages a rank, how stages are laid over the ranks
SCHEDULES = {
    "1f1b": ("Schedule1F1B", 1, "loop"),
    "gpipe": ("ScheduleGPipe", 1, "loop"),
    "interleaved": ("ScheduleInterleaved1F1B", 2, "loop"),
    "bfs": ("ScheduleLoopedBFS", 2, "loop"),
    "zb": ("ScheduleInterleavedZeroBubble", 2, "loop"),
    "zbv": ("ScheduleZBVZeroBubble", 2, "v"),
    "dualpipev": ("ScheduleDualPipeV", 2, "v"),
}


def rank_of_stage(schedule, rank_count):
    """Which rank holds each stage: 0 1 0 1 for a loop over two ranks, 0 1 1 0 for a V."""
    _, stages_a_rank, layout = SCHEDULES[schedule]
    there = list(range(rank_count))
    back = there[::-1] if layout == "v" else there
    return [rank for turn in range(stages_a_rank) for rank in (there if turn % 2 == 0 else back)]


def cuts_for(job, schedule, rank_count, times):
    """The split this schedule gets, from layer times as split.measure() gives them."""
    return split.balance(times["compute"], times["step"], job.microbatches, rank_count,
                         rank_of_stage(schedule, rank_count))


def train(job, schedule, cuts):
    """Runs the job on all ranks; every rank calls it and gets the figures."""
    import torch
    import torch.distributed as dist
    import torch.distributed.pipelining as pipelining

    import gpt

    rank, world = dist.get_rank(), dist.get_world_size()
    class_name, stages_a_rank, _ = SCHEDULES[schedule]
    places = rank_of_stage(schedule, world)
    bounds = split.bounds(cuts, job.cuttable_layers)
    gpt.prepare(job)
    memory = ranks.Memory()
    modules = {stage: gpt.build(job, *bounds[stage]) for stage in range(len(places)) if places[stage] == rank}
    parameters = [p for module in modules.values() for p in module.parameters()]
    optimizer = gpt.optimizer(job, parameters)
    class Stage(pipelining.PipelineStage):
        def _get_init_p2p_neighbors_ops(self):
            """Nothing: Gloo connects all ranks at the start, and cannot send to its own rank as a V layout would."""
            return []

    stages = [Stage(module, stage, len(places), torch.device("cpu")) for stage, module in modules.items()]
    # The loss is divided here, which spares the library a pass over all gradients (its scale_grads).
    pipeline = getattr(pipelining, class_name)(
        stages[0] if stages_a_rank == 1 else stages, job.microbatches, scale_grads=False,
        loss_fn=lambda logits, targets: gpt.loss(logits, targets) / job.microbatches)

    holds_first, holds_last = 0 in modules, len(places) - 1 in modules
    losses, norms = torch.zeros(job.warmup + job.updates), []
    for update in range(job.warmup + job.updates):
        if update == job.warmup:
            dist.barrier()
            begin = time.perf_counter()
        batches = [gpt.batch(job, update, microbatch) for microbatch in range(job.microbatches)]
        tokens = [torch.cat([batch[0] for batch in batches])] if holds_first else []
        targets = torch.cat([batch[1] for batch in batches]) if holds_last else None
        microbatch_losses = []
        pipeline.step(*tokens, target=targets, losses=microbatch_losses, return_outputs=False)
        norms.append(gpt.clip(parameters, dist.all_reduce).item())
        optimizer.step()
        optimizer.zero_grad()
        losses[update] = sum(loss.item() for loss in microbatch_losses)
    dist.barrier()
    seconds = time.perf_counter() - begin
    dist.all_reduce(losses)
    peaks = [None] * world
    dist.all_gather_object(peaks, memory.peak_bytes())
    return {"tokens_per_s": job.updates * job.tokens_per_update / seconds, "seconds": seconds, "peak_bytes": peaks,
            "split": [last - first + 1 for first, last in bounds], "losses": losses.tolist(), "norms": norms}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    jobs.add_arguments(parser)
    parser.add_argument("--stages", type=int, default=2, help="ranks")
    parser.add_argument("--schedule", choices=SCHEDULES, default="1f1b")
    parser.add_argument("--split", type=lambda text: [int(part) for part in text.split(",")])
    parser.add_argument("--timeout", type=float, default=600)
    arguments = parser.parse_args()
    ranks.start(arguments.stages, threads=1, timeout=arguments.timeout)

    import torch.distributed as dist

    ranks.join_and_pin()
    job, cuts = jobs.from_arguments(arguments), [arguments.split]
    if cuts[0] is None:
        if ranks.rank() == 0:
            cuts = [cuts_for(job, arguments.schedule, arguments.stages, split.measure(job))]
        dist.broadcast_object_list(cuts)
    result = train(job, arguments.schedule, cuts[0])
    if ranks.rank() == 0:
        print(json.dumps(result))
    ranks.leave()


if __name__ == "__main__":
    main()
