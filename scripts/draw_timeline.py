#!/usr/bin/env python3
"""Draws traces of `twobw train --trace` and `twobw simulate --trace` as one SVG picture, one above the other on one scale.

    scripts/draw_timeline.py out.svg "modelled=sim.json" "measured=run.json" [--from-update 2] [--updates 2]

A row a stage; forwards are light, backwards dark, one hue a batch; a step is black. Idle time stays white.
"""
import argparse
import html
import json
import pathlib
import sys

ROW, GAP, LEFT, WIDTH = 26, 8, 92, 1100
PALETTE = [("#8fb8e8", "#3f78bf"), ("#f2b880", "#c9752b"), ("#94d1a5", "#3f9558")]  # forward, backward; by batch


def load(path, first_update, updates):
    """Cells (stage, begin, end, op, microbatch, batch) from the first forward of an update, in milliseconds since it."""
    cells = []
    for event in json.loads(pathlib.Path(path).read_text()):
        if event["name"] in ("Forward", "Backward", "Step") and event["pid"] == 0:
            begin = event["ts"] / 1e3
            cells.append((event["tid"], begin, begin + event["dur"] / 1e3, event["name"],
                          event["args"].get("microbatch"), event["args"]["batch"]))
    starts = [cell[1] for cell in cells if cell[0] == 0 and cell[5] == first_update and cell[3] == "Forward"]
    ends = [cell[1] for cell in cells if cell[0] == 0 and cell[5] == first_update + updates and cell[3] == "Forward"]
    if not starts or not ends:
        sys.exit(f"{path} has no updates {first_update} to {first_update + updates}")
    begin, end = min(starts), min(ends)
    return [(stage, max(b, begin) - begin, min(e, end) - begin, op, k, j)
            for stage, b, e, op, k, j in cells if e > begin and b < end], end - begin


def colour(op, batch):
    if op == "Step":
        return "#111"
    return PALETTE[batch % len(PALETTE)][op == "Backward"]


def panel(title, cells, length, scale, top):
    stages = max(cell[0] for cell in cells) + 1
    parts = [f'<text x="0" y="{top + 14}" class="title">{html.escape(title)}: {length:.0f} ms</text>']
    for stage in range(stages):
        y = top + 24 + stage * (ROW + GAP)
        parts.append(f'<text x="0" y="{y + 17}">stage {stage}</text>')
        parts.append(f'<rect x="{LEFT}" y="{y}" width="{length * scale:.1f}" height="{ROW}" class="idle"/>')
    for stage, begin, end, op, microbatch, batch in cells:
        x, y, width = LEFT + begin * scale, top + 24 + stage * (ROW + GAP), (end - begin) * scale
        parts.append(f'<rect x="{x:.2f}" y="{y}" width="{max(width, 0.6):.2f}" height="{ROW}" fill="{colour(op, batch)}"/>')
        if width > 14 and microbatch is not None:
            parts.append(f'<text x="{x + width / 2:.2f}" y="{y + 17}" class="cell">{microbatch}</text>')
    return parts, top + 24 + stages * (ROW + GAP) + 18


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    parser.add_argument("traces", nargs="+", metavar="TITLE=TRACE")
    parser.add_argument("--from-update", type=int, default=2, help="first update drawn, from 0")
    parser.add_argument("--updates", type=int, default=2, help="how many")
    arguments = parser.parse_args()
    panels = []
    for text in arguments.traces:
        title, _, path = text.rpartition("=")
        panels.append((title or path, *load(path, arguments.from_update, arguments.updates)))
    scale = (WIDTH - LEFT - 4) / max(length for _, _, length in panels)
    body, top = [], 4
    for title, cells, length in panels:
        parts, top = panel(title, cells, length, scale, top)
        body += parts
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top}" viewBox="0 0 {WIDTH} {top}">',
           "<style>text{font:13px sans-serif;fill:#222}.title{font-weight:bold}"
           ".cell{font-size:11px;text-anchor:middle;fill:#fff}.idle{fill:#fff;stroke:#bbb}</style>",
           f'<rect width="{WIDTH}" height="{top}" fill="#fff"/>', *body, "</svg>"]
    pathlib.Path(arguments.output).write_text("\n".join(svg) + "\n")


if __name__ == "__main__":
    main()
