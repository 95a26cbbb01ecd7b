"""Plans, simulations and schedules: what needs neither a GPU nor PyTorch."""
from __future__ import annotations

import dataclasses
import json as json_format
import os
import pathlib
import tempfile
from typing import Any, Sequence

from . import programs
from .config import Config, ConfigLike, Override, config_words
from .results import Bar, Table, count, decode, draw_bars, html_table, raw_json

Path = str | os.PathLike[str]
Time = str | float | Sequence[str | float]  # seconds or "10ms"; one for all stages or one a stage


@dataclasses.dataclass(frozen=True)
class Place:
    """A device of a cluster: the node's name and the device's number on it."""

    node: str
    device: int


@dataclasses.dataclass(frozen=True)
class StagePlan:
    """A stage of a plan: its layers, its device in every replica, its times and its memory."""

    first_layer: int
    last_layer: int
    recompute: bool
    in_flight: int
    weight_versions: int
    gradient_buffers: int
    kind: str
    replicas: list[Place]
    forward_seconds: float
    backward_seconds: float
    step_seconds: float
    busy: float
    memory_bytes: int
    memory_bytes_by_term: dict[str, int]
    capacity_bytes: int
    json: dict[str, Any] = raw_json()


@dataclasses.dataclass(frozen=True)
class Pipeline:
    """A pipeline that the planner considered, with its forecast."""

    schedule: str
    stages: int
    replicas: int
    microbatch: int
    microbatches: int
    extra: int
    predict: bool
    update_seconds: float
    tokens_per_s: float
    utilisation: float
    communication_share: float
    fits: bool
    stage_plans: list[StagePlan]
    json: dict[str, Any] = raw_json()


@dataclasses.dataclass(frozen=True)
class Candidate:
    """The best plan of a family of plans (schedule and replicas), and why it lost."""

    schedule: str
    replicas: int
    chosen: bool
    tokens_per_s: float | None
    ratio: float | None
    reason: str
    json: dict[str, Any] = raw_json()


@dataclasses.dataclass(frozen=True)
class Plan(Table):
    """The planner's choice. If nothing fits, `plan` is None, `closest` comes closest and `remedies` make it fit."""

    cluster: str
    devices: int
    parameters: int
    layers: int
    batch: int
    context: int
    plan: Pipeline | None
    candidates: list[Candidate]
    json: dict[str, Any] = raw_json()
    closest: Pipeline | None = None
    remedies: list[str] = dataclasses.field(default_factory=list)

    def rows(self) -> list[dict[str, Any]]:
        """One row a stage."""
        pipeline = self.plan or self.closest
        return [
            {
                "stage": number,
                "layers": f"{stage.first_layer}..{stage.last_layer}",
                "device": stage.kind,
                "busy": stage.busy,
                "recompute": stage.recompute,
                "memory (GiB)": stage.memory_bytes / 2**30,
                "capacity (GiB)": stage.capacity_bytes / 2**30,
            }
            for number, stage in enumerate(pipeline.stage_plans if pipeline else [])
        ]

    def title(self) -> str:
        """The plan in a sentence, or what would make it fit."""
        pipeline = self.plan or self.closest
        if pipeline is None:
            return f"no plan for {self.cluster}"
        speed = f"{pipeline.tokens_per_s:,.0f} tokens/s" if self.plan else f"does not fit; {'; or '.join(self.remedies)}"
        return (
            f"{pipeline.schedule}, {count(pipeline.stages, 'stage')}, {count(pipeline.replicas, 'replica')}, "
            f"m = {pipeline.microbatches} of {count(pipeline.microbatch, 'sequence')}: {speed}"
        )

    def _repr_html_(self) -> str:
        lost = [
            {
                "schedule": candidate.schedule,
                "replicas": candidate.replicas,
                "tokens/s": candidate.tokens_per_s,
                "lost by": "chosen" if candidate.chosen else candidate.reason,
            }
            for candidate in self.candidates
        ]
        return super()._repr_html_() + html_table(lost, "candidates")


def plan(
    config: ConfigLike = None,
    *overrides: Override,
    cluster: Path | None = None,
    profile: Path | None = None,
    batch: int | None = None,
    schedule: str | None = None,
    stages: int | None = None,
    replicas: int | None = None,
    microbatch: int | None = None,
    microbatches: int | None = None,
    extra: int | None = None,
    recompute: bool | None = None,
    precision: str | None = None,
    margin: float | None = None,
    write: Path | None = None,
) -> Plan:
    """Chooses stages, replicas and microbatches for this machine, or for the hardware in the file `cluster`, as `twobw
    plan` does. The other arguments fix a part of the plan.

    >>> import twobw
    >>> found = twobw.plan("model.layers=2", stages=1, replicas=1)
    >>> found.plan.stages, found.plan.fits
    (1, True)
    """
    words = config_words(config, overrides)
    options = {name: value for name, value in locals().items() if name not in ("config", "overrides", "words")}
    result: Plan = decode(Plan, programs.call("plan", words, **options))
    return result


@dataclasses.dataclass(frozen=True)
class StageUse:
    """The seconds of an update on a stage: compute by kind, waiting by cause."""

    forward: float
    backward: float
    step: float
    handing_over: float
    wait_activation: float
    wait_gradient: float
    wait_reduce: float
    wait_other: float
    utilisation: float


@dataclasses.dataclass(frozen=True)
class Event:
    """An instruction of a simulated run, in seconds since its start."""

    stage: int
    op: str
    begin: float
    end: float
    batch: int
    microbatch: int | None
    version: int | None


@dataclasses.dataclass(frozen=True)
class Simulation(Table):
    """A simulated run: the steady state, stage by stage, and the instructions of the run."""

    schedule: str
    stages: int
    microbatches: int
    extra: int
    updates: int
    update_seconds: float
    microbatches_per_s: float
    utilisation: float
    total_seconds: float
    seconds_of_an_update: list[StageUse]
    json: dict[str, Any] = raw_json()
    tokens_per_s: float | None = None
    events: list[Event] = dataclasses.field(default_factory=list, repr=False, compare=False)

    def title(self) -> str:
        """The speed in a sentence."""
        return f"{self.schedule}, {count(self.stages, 'stage')}: {self.update_seconds:.4g} s an update, {100 * self.utilisation:.1f}% busy"

    def rows(self) -> list[dict[str, Any]]:
        """One row a stage."""
        return [{"stage": i, **dataclasses.asdict(use)} for i, use in enumerate(self.seconds_of_an_update)]

    def _repr_html_(self) -> str:
        # The start of the run: three updates show the steady state.
        end = min(self.total_seconds, 3 * self.update_seconds)
        bars = [
            Bar(
                row=event.stage,
                begin=event.begin,
                end=event.end,
                label=f"{event.microbatch}" + ("'" if event.op == "Backward" else ""),
                title=f"{event.op} of microbatch {event.microbatch}, batch {event.batch}",
                version=event.version or 0,
                backward=event.op == "Backward",
            )
            for event in self.events
            if event.op in ("Forward", "Backward")
        ]
        names = [f"stage {stage}" for stage in range(self.stages)]
        drawn = draw_bars(names, bars, end, "s")
        return f"<p>{self}</p>{drawn}{html_table(self.rows(), 'seconds of an update')}"


def simulate(
    config: ConfigLike = None,
    *overrides: Override,
    stages: int | None = None,
    microbatches: int | None = None,
    extra: int | None = None,
    predict: bool | None = None,
    updates: int | None = None,
    forward: Time | None = None,
    backward: Time | None = None,
    step: Time | None = None,
    prediction: Time | None = None,
    reduce: Time | None = None,
    activation_bytes: str | int | None = None,
    bandwidth: str | None = None,
    latency: str | float | None = None,
    cluster: Path | None = None,
    profile: Path | None = None,
) -> Simulation:
    """Simulates a schedule ("2bw", "flush", ...) with the times given, or the pipeline that a configuration describes,
    as `twobw simulate` does.

    >>> import twobw
    >>> flush = twobw.simulate("flush", stages=4, microbatches=4, forward="10ms", backward="20ms")
    >>> round(flush.utilisation, 3)
    0.571
    """
    words = config_words(config, overrides)
    options = {name: value for name, value in locals().items() if name not in ("config", "overrides", "words")}
    with tempfile.TemporaryDirectory(prefix="twobw-") as folder:
        trace = pathlib.Path(folder) / "trace.json"
        printed = programs.call("simulate", words, trace=trace, **options)
        events = [event_of(cell) for cell in json_format.loads(trace.read_text())]
    result: Simulation = decode(Simulation, printed)
    return dataclasses.replace(result, events=events)


def event_of(cell: dict[str, Any]) -> Event:
    """An event of a trace, whose times are in microseconds."""
    begin, arguments = cell["ts"] / 1e6, cell["args"]
    return Event(
        stage=cell["tid"],
        op=cell["name"],
        begin=begin,
        end=begin + cell["dur"] / 1e6,
        batch=arguments["batch"],
        microbatch=arguments.get("microbatch"),
        version=arguments.get("version"),
    )


@dataclasses.dataclass(frozen=True)
class Instruction:
    """An instruction of a stage. `version` t is of W(t), or of P(t) if `predicted`; start and end are in ticks."""

    op: str
    batch: int
    microbatch: int | None
    version: int | None
    predicted: bool
    start: int
    end: int
    text: str


@dataclasses.dataclass(frozen=True)
class Property:
    """A property that the checker proves of a schedule, or the first violation of it."""

    property: str
    meaning: str
    ok: bool
    problem: str


@dataclasses.dataclass(frozen=True)
class MostHeld:
    """The most that a stage holds at any time."""

    in_flight: int
    weight_versions: int
    gradients: int


@dataclasses.dataclass(frozen=True)
class Schedule(Table):
    """The instructions of every stage, and the proof of their properties."""

    schedule: str
    stages: int
    replicas: int
    microbatches: int
    extra: int
    updates: int
    ok: bool
    check: list[Property]
    most_held: list[MostHeld]
    ticks_per_batch: float
    utilisation: float
    instructions: list[list[Instruction]] = dataclasses.field(repr=False)
    json: dict[str, Any] = raw_json()

    def rows(self) -> list[dict[str, Any]]:
        """One row an instruction."""
        return [
            {"stage": stage, **dataclasses.asdict(instruction)}
            for stage, instructions in enumerate(self.instructions)
            for instruction in instructions
        ]

    def title(self) -> str:
        """The schedule and its proof in a sentence."""
        held = ", ".join(f"{held.weight_versions}" for held in self.most_held)
        proof = "all properties hold" if self.ok else "; ".join(p.problem for p in self.check if not p.ok)
        return (
            f"{self.schedule}, {count(self.stages, 'stage')}, m = {self.microbatches}: {100 * self.utilisation:.1f}% busy, "
            f"weight versions by stage {held}; {proof}"
        )

    def _repr_html_(self) -> str:
        bars = [
            Bar(
                row=stage,
                begin=instruction.start,
                end=instruction.end,
                label=f"{instruction.microbatch}" + ("'" if instruction.op == "Backward" else ""),
                title=instruction.text,
                version=instruction.version or 0,
                backward=instruction.op == "Backward",
            )
            for stage, instructions in enumerate(self.instructions)
            for instruction in instructions
            if instruction.op in ("Forward", "Backward")
        ]
        end = max((bar.end for bar in bars), default=0.0)
        held = [{"stage": stage, **dataclasses.asdict(most)} for stage, most in enumerate(self.most_held)]
        names = [f"stage {stage}" for stage in range(self.stages)]
        return f"<p>{self}</p>{draw_bars(names, bars, end, 'ticks')}{html_table(held, 'most held')}"


def schedule(
    kind: str = "2bw",
    *,
    stages: int | None = None,
    microbatches: int | None = None,
    extra: int | None = None,
    predict: bool | None = None,
    step_slack: int | None = None,
    replicas: int | None = None,
    updates: int | None = None,
    sync_updates: int | None = None,
    evaluate_every: int | None = None,
    save_every: int | None = None,
    forward: int | None = None,
    backward: int | None = None,
) -> Schedule:
    """The instructions of a schedule, and the proof of its properties, as `twobw schedule --check` prints it. Times are
    in ticks.

    >>> import twobw
    >>> two = twobw.schedule("2bw", stages=4, microbatches=4)
    >>> two.ok, [held.weight_versions for held in two.most_held]
    (True, [2, 2, 2, 1])
    """
    options = {name: value for name, value in locals().items() if name != "kind"}
    result: Schedule = decode(Schedule, programs.call("schedule", [kind, "--list"], **options))
    return result
