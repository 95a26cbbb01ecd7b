"""Shows that the baselines train the model they claim to train.

    python benchmarks/check_baselines.py [--stages 2]

On a tiny model and the same data, data parallelism and every schedule of torch.distributed.pipelining must give the
losses and gradient norms of plain accumulation in one process, update by update. The model itself must give the logits
of transformers' GPT-2 on the same weights.
"""

import argparse
import dataclasses
import sys

import job as jobs
import ranks
import torch_ddp
import torch_pipelining
import torch_plain

TOLERANCE = 1e-4


def worst(result, reference):
    """Largest difference of losses (absolute) and of gradient norms (relative)."""
    return (max(abs(a - b) for a, b in zip(result["losses"], reference["losses"], strict=True)),
            max(abs(a - b) / b for a, b in zip(result["norms"], reference["norms"], strict=True)))


def contenders(job, stages):
    if job.microbatches % stages == 0:
        yield "ddp", lambda: torch_ddp.train(job)
    for schedule in torch_pipelining.SCHEDULES:
        count = len(torch_pipelining.rank_of_stage(schedule, stages))
        cuts = [1 + index for index in range(count - 1)]  # the last stage gets the rest: uneven on purpose
        yield schedule, lambda schedule=schedule, cuts=cuts: torch_pipelining.train(job, schedule, cuts)


def check_schedules(job, stages, say):
    """Number of contenders that differ from plain accumulation."""
    reference = torch_plain.train(job)
    losses = reference["losses"]
    say(f"m = {job.microbatches}: plain accumulation, losses " + " ".join(f"{loss:.5f}" for loss in losses))
    wrong = int(abs(losses[-1] - losses[0]) < 0.01)
    if wrong:
        say("  the loss does not move, so this check would show nothing")
    for name, train in contenders(job, stages):
        try:
            loss, norm = worst(train(), reference)
        except ValueError as refusal:  # by the schedule's constructor, on every rank
            say(f"  {name:12} refuses: {' '.join(str(refusal).split())}")
            continue
        fine = loss < TOLERANCE and norm < TOLERANCE
        wrong += not fine
        say(f"  {name:12} {'ok' if fine else 'DIFFERS'}: losses within {loss:.1e}, norms within {norm:.1e}")
    return wrong


def check_model(job, say):
    """1 when the logits are not those of transformers' GPT-2."""
    try:
        from transformers import GPT2Config, GPT2LMHeadModel
    except ImportError:
        say("transformers is not installed: the model itself was not checked")
        return 0
    import torch

    import gpt

    ours = gpt.build(job)
    with torch.no_grad():
        for parameter in ours.parameters():  # biases and norms start at 0 and 1, where a wrong one would not show
            noise = torch.Generator().manual_seed(parameter.numel())
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=noise))
    theirs = GPT2LMHeadModel(GPT2Config(
        vocab_size=job.vocab, n_positions=job.context, n_embd=job.width, n_layer=job.layers, n_head=job.heads,
        tie_word_embeddings=False, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=None,
        eos_token_id=None)).eval()
    weights = {"transformer.wte": ours[0].token, "transformer.wpe": ours[0].position, "transformer.ln_f": ours[-1].norm,
               "lm_head": ours[-1].logits}
    for block in range(job.layers):
        attention, mlp = ours[1 + 2 * block], ours[2 + 2 * block]
        for name, module in {"ln_1": attention.norm, "attn.c_attn": attention.qkv, "attn.c_proj": attention.out,
                             "ln_2": mlp.norm, "mlp.c_fc": mlp.up, "mlp.c_proj": mlp.out}.items():
            weights[f"transformer.h.{block}.{name}"] = module
    state = theirs.state_dict()
    for name, module in weights.items():
        for part, value in module.state_dict().items():
            transposed = ".c_" in name and part == "weight"  # theirs is a convolution's layout
            state[f"{name}.{part}"].copy_(value.t() if transposed else value)
    tokens, _ = gpt.batch(job, 0, 0)
    with torch.no_grad():
        difference = (ours(tokens) - theirs(tokens).logits).abs().max().item()
    say(f"model: logits within {difference:.1e} of transformers' GPT-2")
    return int(difference > TOLERANCE)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stages", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=120)
    arguments = parser.parse_args()
    ranks.start(arguments.stages, threads=1, timeout=arguments.timeout)
    ranks.join_and_pin()

    def say(line):
        if ranks.rank() == 0:
            print(line, flush=True)

    stages = arguments.stages
    job = jobs.Job(layers=stages, width=32, heads=2, vocab=96, context=16, microbatch=2, warmup=0, updates=3, lr=1e-2)
    wrong = check_model(job, say) if ranks.rank() == 0 else 0
    for microbatches in (stages, 2 * stages, 4 * stages):
        wrong += check_schedules(dataclasses.replace(job, microbatches=microbatches), stages, say)
    if wrong:
        sys.exit(f"error: {wrong} of the checks failed")
    ranks.leave()


if __name__ == "__main__":
    main()
