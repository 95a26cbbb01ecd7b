"""Plan a training run in a notebook: which GPUs, which split, how fast. No GPU and no PyTorch needed.

Install with `pip install .` in a clone. Open this file in an editor that knows `# %%` cells, or run it with Python: it
then writes plan.html, schedule.html and simulation.html.
"""

# %% [markdown]
# # Which GPUs do I need?
# We plan the training of a Llama with one billion parameters, on two kinds of hardware that we do not own.

# %%
import pathlib

import twobw

model = twobw.Config(
    {
        "model.family": "llama",
        "model.layers": 16,
        "model.width": 2048,
        "model.heads": 32,
        "model.vocab": 128256,
        "model.context": 2048,
        "train.precision": "bf16",
        "pipeline.microbatch": 2,
        "pipeline.microbatches": 16,
    }
)
model.model.layers

# %% [markdown]
# A wrong value is refused at once, with the key and the way out.

# %%
try:
    model.model.heads = 33
except twobw.InputError as error:
    print(error.key, "|", error.remedy)

# %% [markdown]
# Hardware is described by a file. One machine with four RTX 4090 against two machines with two A100 each:

# %%
pathlib.Path("desk.yaml").write_text(
    """
nodes: [{name: desk, devices: 4 x RTX 4090, link: {bandwidth: 25GB/s, latency: 10us}}]
"""
)
pathlib.Path("cluster.yaml").write_text(
    """
nodes: [{name: node, count: 2, devices: 2 x A100-40GB, link: {bandwidth: 250GB/s, latency: 5us}}]
network: {bandwidth: 25Gbit/s, latency: 20us, shared: true}
"""
)
plans = {name: twobw.plan(model, cluster=f"{name}.yaml") for name in ("desk", "cluster")}
for name, plan in plans.items():
    print(f"{name}: {plan.plan.schedule}, {plan.plan.stages} stages, {plan.plan.tokens_per_s:,.0f} tokens/s")

# %% [markdown]
# The plan as a table: layers, busy time and memory of every stage, and why other plans lost. In a notebook the last
# expression of a cell is shown; here the table goes to a file as well.

# %%
plan = plans["desk"]
pathlib.Path("plan.html").write_text(plan._repr_html_())
plan

# %% [markdown]
# # Why does 2bw not wait?
# Every stage has two versions of its weights, so a batch begins while the one before is still on its way. The colours
# are the versions. The checker proves that every microbatch runs on the version of the rule.

# %%
schedule = twobw.schedule("2bw", stages=4, microbatches=4)
print(schedule)
pathlib.Path("schedule.html").write_text(schedule._repr_html_())
schedule

# %% [markdown]
# # How much time does that save?
# The simulator times the same instructions. With a flush, four stages of equal size idle for three slots of seven.

# %%
times = {"stages": 4, "microbatches": 4, "forward": "10ms", "backward": "20ms", "latency": "1ms"}
for kind in ("flush", "2bw"):
    simulation = twobw.simulate(kind, **times)
    print(f"{kind}: {1000 * simulation.update_seconds:.0f} ms an update, {100 * simulation.utilisation:.0f}% busy")
pathlib.Path("simulation.html").write_text(simulation._repr_html_())
simulation

# %% [markdown]
# # And then?
# With `pip install '.[train]'` the same configuration trains: `for record in twobw.train(model): ...`, and
# `twobw.compare` measures what 2bw gains in time and costs in loss. docs/reference/python.md has every function.
