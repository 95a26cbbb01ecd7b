#!/usr/bin/env python3
"""Includes point down only: checks every #include between the folders of src/ against their strict order."""
import pathlib
import re
import sys

# Folders of the wings from the bottom up. A folder includes itself and earlier ones. Between wings the link
# dependencies enforce the same (src/*/CMakeLists.txt).
ORDER = [
    "core/base", "core/launch", "core/schedule", "core/simulator", "core/telemetry",
    "planning/architecture", "planning/planner/hardware", "planning/planner/costs", "planning/planner/search",
    "planning/planner/report", "planning/host",
    "text/tokenizer", "text/corpus",
    "engine/control", "engine/device", "engine/data", "engine/checkpoint", "engine/models", "engine/weights",
    "engine/optim", "engine/transport", "engine/runtime",
    "app/rendezvous", "app/inference", "app/measure", "app/train", "app/cli",
]
HEIGHT = {folder: height for height, folder in enumerate(ORDER)}
# Folders that build without LibTorch, as do app/cli except its engine/ and the formats of checkpoint files.
TORCH_FREE = set(ORDER[:ORDER.index("engine/device")])
INCLUDE = re.compile(r'^\s*#include\s+(["<])([^">]+)[">]')


def folder_of(parts):
    """The folder in ORDER that a path below src/ belongs to, or None."""
    return next((name for name in ("/".join(parts[:3]), "/".join(parts[:2])) if name in HEIGHT), None)


def problems(root):
    for path in sorted(root.glob("*/*/**/*.*")):
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
