"""Runs: what needs the package torch in the environment (the extra `train`), and reading what runs left."""
from __future__ import annotations

import dataclasses
import json as json_format
import os
import pathlib
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import types
import weakref
from typing import Any, IO, Iterator

from . import programs
from .config import Config, ConfigLike, Override, config_words
from .errors import RunError
from .planning import Path
from .results import Table, decode, draw_curve, html_table, raw_json, shown


@dataclasses.dataclass(frozen=True)
class Update:
    """An update of a run: a line of metrics.jsonl."""

    update: int
    loss: float | None
    lr: float
    grad_norm: float | None
    tokens_per_s: float | None
    skipped: bool
    time: float
    json: dict[str, Any] = raw_json()


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The validation loss after an update."""

    update: int
    validation_loss: float | None
    json: dict[str, Any] = raw_json()


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was written, after the update of its number."""

    checkpoint: int
    bytes: int
    seconds: float
    json: dict[str, Any] = raw_json()


Record = Update | Evaluation | Checkpoint


def record_of(line: str) -> Record:
    """A line of metrics.jsonl.

    >>> import twobw.training
    >>> twobw.training.record_of('{"update": 3, "validation_loss": 2.5}')
    Evaluation(update=3, validation_loss=2.5)
    """
    value = json_format.loads(line)
    kind = Checkpoint if "checkpoint" in value else Update if "lr" in value else Evaluation
    record: Record = decode(kind, value)
    return record


@dataclasses.dataclass(frozen=True)
class StageSummary:
    """A stage of a run: its first and last layer, its device, and the most bytes of tensors that it held."""

    layers: list[int]
    device: str
    utilisation: float
    peak_bytes: int
    memory: dict[str, int]
    json: dict[str, Any] = raw_json()


@dataclasses.dataclass(frozen=True)
class Summary:
    """The final figures of a run: its summary.json."""

    updates: int
    seconds: float
    parameters: int
    schedule: str
    split: list[int]
    stages: list[StageSummary]
    interrupted: bool
    json: dict[str, Any] = raw_json()
    loss: float | None = None
    validation_loss: float | None = None
    best_validation_loss: float | None = None
    tokens_per_s: float | None = None
    utilisation: float | None = None
    skipped_updates: int = 0


@dataclasses.dataclass(frozen=True)
class Run(Table):
    """A run directory. Without a summary the run is still in progress, or was killed."""

    path: pathlib.Path
    records: list[Record] = dataclasses.field(repr=False)
    summary: Summary | None = dataclasses.field(repr=False)

    @property
    def config(self) -> Config:
        """The resolved configuration of the run.

        >>> import twobw
        >>> twobw.load_run("runs/tiny").config.train.updates
        4
        """
        return Config.from_yaml(self.path / "config.yaml")

    @property
    def updates(self) -> list[Update]:
        """The updates.

        >>> import twobw
        >>> [update.update for update in twobw.load_run("runs/tiny").updates]
        [1, 2, 3, 4]
        """
        return [record for record in self.records if isinstance(record, Update)]

    @property
    def evaluations(self) -> list[Evaluation]:
        """The evaluations.

        >>> import twobw
        >>> [evaluation.update for evaluation in twobw.load_run("runs/tiny").evaluations]
        [2, 4]
        """
        return [record for record in self.records if isinstance(record, Evaluation)]

    def rows(self) -> list[dict[str, Any]]:
        """One row an update."""
        return [
            {field.name: getattr(update, field.name) for field in dataclasses.fields(update) if field.name != "json"}
            for update in self.updates
        ]

    def title(self) -> str:
        """The run in a sentence."""
        if self.summary is None:
            return f"{self.path}: {len(self.updates)} updates so far"
        figures = f"loss {shown(self.summary.loss)}, {shown(self.summary.tokens_per_s)} tokens/s"
        return f"{self.path}: {self.summary.updates} updates, {figures}"

    def _repr_html_(self) -> str:
        points = [(float(update.update), update.loss) for update in self.updates]
        curve = draw_curve([(x, y) for x, y in points if y is not None], "loss")
        stages = [
            {
                "stage": number,
                "layers": f"{stage.layers[0]}..{stage.layers[1]}",
                "device": stage.device,
                "busy": stage.utilisation,
                "peak (MiB)": stage.peak_bytes / 2**20,
            }
            for number, stage in enumerate(self.summary.stages if self.summary else [])
        ]
        return html_table(stages, self.title()) + curve


def load_run(path: Path) -> Run:
    """The run in a folder; one that is still in progress, too.

    >>> import twobw
    >>> twobw.load_run("runs/tiny").summary.updates
    4
    """
    folder = pathlib.Path(path)
    if not (folder / "metrics.jsonl").exists():
        raise RunError(f"no run in '{folder}': metrics.jsonl is missing", remedy="give the run_dir of a run")
    text = (folder / "metrics.jsonl").read_text()
    # A run in progress may be in the middle of a line.
    records = [record_of(line) for line in text[: text.rfind("\n") + 1].splitlines()]
    summary = None
    if (folder / "summary.json").exists():
        summary = decode(Summary, json_format.loads((folder / "summary.json").read_text()))
    return Run(folder, records, summary)


def end_process(process: subprocess.Popen[str]) -> None:
    """Ends a run as Ctrl-C does: it saves a checkpoint first. A second call ends the program at once."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        process.wait()


def pass_lines(source: IO[str], lines: queue.SimpleQueue[str]) -> None:
    """Passes on every line, then an empty one. A run never waits for its reader."""
    for line in source:
        lines.put(line)
    lines.put("")


class Training:
    """A run in progress: an iterator of its records. Ctrl-C while it waits for the next one, stop() and the end of a
    `with` block end the run as Ctrl-C ends `twobw train`, with a checkpoint. As the last line of a notebook's cell it
    shows a bar of its progress.

    >>> import twobw
    >>> tiny = twobw.Config("model.layers=2", "model.width=32", "model.context=16")
    >>> run = twobw.train(tiny, "train.updates=100000")
    >>> next(run).update
    1
    >>> run.stop()
    >>> run.result().summary.interrupted
    True
    """

    def __init__(self, words: list[str], **options: programs.Option) -> None:
        # A session of its own: Ctrl-C reaches the run through this process alone, and once.
        self._complaint: IO[str] = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            [programs.program(), "train", *words, *programs.option_words(options), "--json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._complaint,
            text=True,
            errors="replace",
            env=programs.environment(),
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=pass_lines, args=(self._process.stdout, self._lines), daemon=True).start()
        self._end = weakref.finalize(self, end_process, self._process)
        first = self._lines.get()
        if not first.startswith('{"run_dir"'):
            raise self._failure(first)
        header = json_format.loads(first)
        self.path = pathlib.Path(header["run_dir"])
        self.updates: int = header["updates"]

    def _failure(self, printed: str) -> Exception:
        exit_code = self._process.wait()
        self._complaint.seek(0)
        return programs.error_of(printed, self._complaint.read(), exit_code)

    def __repr__(self) -> str:
        return f"Training of {self.updates} updates in {self.path}"

    def __iter__(self) -> Iterator[Record]:
        return self

    def __next__(self) -> Record:
        try:
            return self._next_record()
        except KeyboardInterrupt:
            self.stop()
            raise

    def _next_record(self) -> Record:
        line = self._lines.get()
        if line.startswith('{"error"') or not line and self._process.wait() != 0:
            raise self._failure(line)
        if not line or line.startswith('{"summary"'):
            self._lines.put("")
            self._process.wait()
            raise StopIteration
        return record_of(line)

    def stop(self) -> None:
        """Ends the run after the update in progress, with a checkpoint, and waits for it (example above)."""
        end_process(self._process)

    def result(self, progress: bool | None = None) -> Run:
        """Waits for the end and reads the run (example above). `progress` shows a bar; by default in a terminal."""
        bar = ProgressBar(self.updates, sys.stderr.isatty() if progress is None else progress)
        for record in self:
            if isinstance(record, Update):
                bar.show(record)
        bar.end()
        return load_run(self.path)

    def __enter__(self) -> Training:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: types.TracebackType | None
    ) -> None:
        self.stop()

    def _ipython_display_(self) -> None:
        self.result(progress=True)


class ProgressBar:
    """A bar in a notebook, else a line in the terminal."""

    def __init__(self, updates: int, visible: bool) -> None:
        self._updates = updates
        self._visible = visible
        self._handle: Any = None
        if visible and "ipykernel" in sys.modules:
            import IPython.display

            self._html = IPython.display.HTML
            self._handle = IPython.display.display(self._html(""), display_id=True)

    def show(self, record: Update) -> None:
        """Shows the newest update."""
        if not self._visible:
            return
        text = f"update {record.update}/{self._updates}  loss {shown(record.loss)}  {shown(record.tokens_per_s)} tokens/s"
        if self._handle is not None:
            bar = f'<progress value="{record.update}" max="{self._updates}"></progress> {text}'
            self._handle.update(self._html(bar))
        else:
            print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Ends the line in the terminal."""
        if self._visible and self._handle is None:
            print(file=sys.stderr)


def train(config: ConfigLike = None, *overrides: Override, trace: Path | None = None) -> Training:
    """Starts a run as `twobw train` does. The result is an iterator of its records; `result()` waits for the end.

    >>> import twobw
    >>> tiny = twobw.Config("model.layers=2", "model.width=32", "model.context=16")
    >>> run = twobw.train(tiny, "train.updates=3")
    >>> [record.update for record in run if isinstance(record, twobw.Update)]
    [1, 2, 3]
    """
    return Training(config_words(config, overrides), trace=trace)


@dataclasses.dataclass(frozen=True)
class CurvePoint:
    """An evaluation of a compared run."""

    update: int
    seconds: float
    validation_loss: float | None


@dataclasses.dataclass(frozen=True)
class ComparedRun:
    """A run of a comparison."""

    schedule: str
    seed: int
    tokens_per_s: float
    seconds: float
    curve: list[CurvePoint]


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A mean over seeds and its standard error, which one seed does not have."""

    mean: float
    standard_error: float | None


@dataclasses.dataclass(frozen=True)
class Comparison(Table):
    """Runs under flush and under 2bw, and what to take."""

    updates: int
    tokens_per_update: int
    runs: list[ComparedRun]
    flush_loss: Estimate
    two_bw_loss: Estimate = dataclasses.field(metadata={"key": "2bw_loss"})
    loss_difference: Estimate
    target: float
    advice: str
    json: dict[str, Any] = raw_json()

    def title(self) -> str:
        """What to take."""
        return self.advice.strip()

    def rows(self) -> list[dict[str, Any]]:
        """One row an evaluation."""
        return [
            {"schedule": run.schedule, "seed": run.seed, **dataclasses.asdict(point)}
            for run in self.runs
            for point in run.curve
        ]

    def _repr_html_(self) -> str:
        rows = [
            {
                "schedule": run.schedule,
                "seed": run.seed,
                "final validation loss": run.curve[-1].validation_loss,
                "tokens/s": run.tokens_per_s,
                "seconds": run.seconds,
            }
            for run in self.runs
        ]
        return html_table(rows, self.title())


def compare(
    config: ConfigLike = None,
    *overrides: Override,
    updates: int | None = None,
    seeds: int | None = None,
    target: float | None = None,
) -> Comparison:
    """Trains under flush and under 2bw, seed by seed, and compares loss and time, as `twobw compare` does.

    >>> import twobw
    >>> tiny = twobw.Config("model.layers=2", "model.width=32", "model.context=16")
    >>> result = twobw.compare(tiny, updates=2, seeds=1)
    >>> [run.schedule for run in result.runs]
    ['flush', '2bw']
    """
    options = {"updates": updates, "seeds": seeds, "target": target}
    result: Comparison = decode(Comparison, programs.call("compare", config_words(config, overrides), **options))
    return result


@dataclasses.dataclass(frozen=True)
class Verification(Table):
    """Whether a pipeline equals the serial oracle; `difference` is the first figure that differs."""

    equal: bool
    difference: str
    schedule: str
    stages: int
    replicas: int
    split: list[int]
    microbatches: int
    parameters: int
    updates: int
    peak_versions: list[int]
    loss: float
    seconds: float
    json: dict[str, Any] = raw_json()

    def title(self) -> str:
        """Whether it is equal."""
        return "equal to the serial oracle" if self.equal else f"different from the serial oracle, first at {self.difference}"

    def rows(self) -> list[dict[str, Any]]:
        """One row."""
        return [self.json]


def verify(
    config: ConfigLike = None, *overrides: Override, against: str | None = None, within: float | None = None
) -> Verification:
    """Trains next to a serial oracle and compares every weight, bit for bit, as `twobw verify` does.

    >>> import twobw
    >>> twobw.verify("pipeline.stages=2").equal
    True
    """
    options = {"against": against, "within": within}
    result: Verification = decode(Verification, programs.call("verify", config_words(config, overrides), **options))
    return result
