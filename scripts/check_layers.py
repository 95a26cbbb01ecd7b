#!/usr/bin/env python3
"""Includes point down only: checks every #include between the folders of src/ against their strict order."""
import pathlib
import re
import sys

# From the bottom up; the rooms of planner/ too. A folder sees itself and those before it.
ORDER = [
    "base", "launch", "control", "tokenizer", "corpus", "schedule", "architecture", "simulator",
    "planner/hardware", "planner/costs", "planner/search", "planner/report",
    "device", "telemetry", "data", "checkpoint", "models", "weights", "optim", "transport",
    "rendezvous", "runtime", "inference", "measure", "train", "cli",
]
HEIGHT = {folder: height for height, folder in enumerate(ORDER)}
# The rest of twobw_core, and twobw itself but for cli/engine, cannot include it either: the compiler has no path
# to it there.
TORCH_FREE = set(ORDER[:ORDER.index("device")]) | {"telemetry"}
INCLUDE = re.compile(r'^\s*#include\s+(["<])([^">]+)[">]')


def folder_of(parts):
    """The folder in ORDER that a path below src/ belongs to; None: none of ours."""
    return next((name for name in ("/".join(parts[:2]), parts[0]) if name in HEIGHT), None)


def problems(root):
    for path in sorted(root.glob("*/**/*.*")):
        folder = folder_of(path.relative_to(root).parts)
        if folder is None:
            yield f"{path}: its folder has no place in the order of check_layers.py"
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            parts = match[2].split("/")
            if match[1] == "<":
                if folder in TORCH_FREE and parts[0] in ("ATen", "torch", "c10"):
                    yield f"{path}:{number}: {folder} must not include LibTorch"
                continue
            target = folder_of(parts)
            if target and HEIGHT[target] > HEIGHT[folder]:
                yield f"{path}:{number}: {folder} is below {target}"


found = list(problems(pathlib.Path(__file__).resolve().parent.parent / "src"))
print("\n".join(found) if found else "layers: every include points down")
sys.exit(1 if found else 0)
