"""Pipeline-parallel training without a flush: plan, simulate and train from Python.

Every function calls the program `twobw` and returns its JSON as a dataclass, which a notebook shows as a table or a
drawing and `to_pandas` turns into a DataFrame. Planning, simulation and schedules need no PyTorch.
"""
from importlib import metadata

from .config import Config, Section
from .errors import InputError, RunError, TwobwError
from .planning import Plan, Schedule, Simulation, plan, schedule, simulate
from .training import (
    Checkpoint,
    Comparison,
    Evaluation,
    Run,
    Training,
    Update,
    Verification,
    compare,
    load_run,
    train,
    verify,
)

try:
    __version__ = metadata.version("twobw")
except metadata.PackageNotFoundError:  # not installed: a folder of sources on the path
    __version__ = "unknown"

__all__ = [
    "Checkpoint",
    "Comparison",
    "Config",
    "Evaluation",
    "InputError",
    "Plan",
    "Run",
    "RunError",
    "Schedule",
    "Section",
    "Simulation",
    "Training",
    "TwobwError",
    "Update",
    "Verification",
    "compare",
    "load_run",
    "plan",
    "schedule",
    "simulate",
    "train",
    "verify",
]
