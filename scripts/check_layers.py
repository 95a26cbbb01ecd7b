#!/usr/bin/env python3
"""Includes point down only: checks every #include between the folders of src/ against the layers."""
import pathlib
import re
import sys

# From the bottom up. Folders of one line stand side by side; those listed may see each other.
LAYERS = [
    {"base"},
    {"schedule"},
    {"simulator"},
    {"planner"},
    {"device", "telemetry", "checkpoint", "data", "optim", "models", "weights", "transport"},
    {"runtime"},
    {"train"},
    {"cli"},
]
HEIGHT = {folder: height for height, layer in enumerate(LAYERS) for folder in layer}
# The rest of twobw_core, and twobw itself but for cli/engine, cannot include it either: the compiler has no path
# to it there.
TORCH_FREE = {"base", "schedule", "simulator", "planner", "telemetry"}
INCLUDE = re.compile(r'^\s*#include\s+(["<])([^">]+)[">]')


def problems(root):
    for path in sorted(root.glob("*/**/*.*")):
        folder = path.relative_to(root).parts[0]
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            target = match[2].split("/")[0]
            if match[1] == "<":
                if folder in TORCH_FREE and target in ("ATen", "torch", "c10"):
                    yield f"{path}:{number}: {folder} must not include LibTorch"
            elif target in HEIGHT and HEIGHT[target] > HEIGHT[folder]:
                yield f"{path}:{number}: {folder} is below {target}"


found = list(problems(pathlib.Path(__file__).resolve().parent.parent / "src"))
print("\n".join(found) if found else "layers: every include points down")
sys.exit(1 if found else 0)
