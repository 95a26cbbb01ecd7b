#!/usr/bin/env python3
"""Draws traces of `twobw train --trace` and `twobw simulate --trace` as one SVG picture, one above the other on one
time axis: a row per stage, a color per batch, forwards light, backwards dark, updates and predictions black. Idle time
stays white.

docs/images/timelines.svg (make pictures), from the first instruction on, with every update marked at the end of its step:

    for s in 2bw flush; do
      build/twobw simulate $s --stages 4 --microbatches 4 --updates 6 --forward 10ms --backward 20ms --trace $s.json
    done
    scripts/draw_timeline.py docs/images/timelines.svg "2bw=2bw.json" "flush (1F1B)=flush.json" --from-start 630 \\
      --caption "d = 4, m = 4, simulated: forward 10 ms, backward 20 ms"

Some updates of the steady state, with the whole step in black (under flush it includes the wait for the global norm):

    scripts/draw_timeline.py out.svg "modeled=sim.json" "measured=run.json" --from-update 2 --updates 2

Utilisation is the share of the time that stages spend in forwards and backwards: over the updates drawn or, with
--from-start, without the first two updates and the last two.
"""
import argparse
import html
import json
import pathlib
import sys
from typing import NamedTuple

WIDTH, MARGIN, LEFT = 940, 16, 78
ROW, GAP, TITLE, MARKS = 22, 4, 26, 14  # heights: a row, between rows, a panel's title, the labels of updates
COMPUTE = ("Forward", "Backward")
# Forward and backward, by batch.
PALETTE = [("#a9cdf2", "#2f6fb5"), ("#fbd0a0", "#b9621b"), ("#aadbb8", "#2c8049"), ("#d9c3ec", "#7748a6"),
           ("#f4bccb", "#ad3560")]
STYLE = """<style>
text { font: 12px -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #24292f }
.title { font-size: 14px; font-weight: 600 }
.forward, .backward { font-size: 9.5px; text-anchor: middle }
.backward { fill: #fff }
.small { font-size: 10px; fill: #57606a }
.middle { text-anchor: middle }
.end { text-anchor: end }
.cell { stroke: #fff; stroke-width: .8 }
.row { fill: #fff; stroke: #d0d7de }
.axis { stroke: #8c959f }
.update { fill: #000 }
</style>"""


class Cell(NamedTuple):
    stage: int
    begin: float  # milliseconds
    end: float
    op: str
    microbatch: int | None
    batch: int


class Panel(NamedTuple):
    title: str
    cells: list
    begin: float  # of the drawn time
    end: float
    note: str


def load(path):
    """The forwards, backwards, steps and predictions of the first replica."""
    cells = []
    for event in json.loads(pathlib.Path(path).read_text()):
        if event["name"] in (*COMPUTE, "Step", "Predict") and event["pid"] == 0:
            begin = event["ts"] / 1e3
            cells.append(Cell(event["tid"], begin, begin + event["dur"] / 1e3, event["name"],
                              event["args"].get("microbatch"), event["args"]["batch"]))
    return cells


def start_of(cells, batch):
    """When the first stage begins the batch; None when it never does."""
    return min((c.begin for c in cells if c.stage == 0 and c.batch == batch and c.op == "Forward"), default=None)


def describe(cells, first, last):
    """Utilisation and time per update, from the start of one batch to the start of another."""
    begin, end = start_of(cells, first), start_of(cells, last)
    stages = max(c.stage for c in cells) + 1
    busy = sum(min(c.end, end) - max(c.begin, begin) for c in cells
               if c.op in COMPUTE and c.end > begin and c.begin < end)
    share = busy / (stages * (end - begin))
    return f"utilisation {share:.1%}, {(end - begin) / (last - first):.0f} ms per update"


def panel(title, path, arguments):
    cells = load(path)
    if arguments.from_start:
        last = max((c.batch for c in cells), default=0) - 1
        if last <= 2:
            sys.exit(f"{path} has no steady state: it needs at least five updates")
        return Panel(title, cells, 0, arguments.from_start, describe(cells, 2, last) + " in the steady state")
    first, last = arguments.from_update, arguments.from_update + arguments.updates
    begin, end = start_of(cells, first), start_of(cells, last)
    if begin is None or end is None:
        sys.exit(f"{path} does not have updates {first} to {last}")
    return Panel(title, cells, begin, end, describe(cells, first, last))


def draw_compute(cell, x, y, width):
    fill = PALETTE[cell.batch % len(PALETTE)][cell.op == "Backward"]
    yield f'<rect x="{x:.2f}" y="{y}" width="{width:.2f}" height="{ROW}" fill="{fill}" class="cell"/>'
    if width > 6 * len(str(cell.microbatch)):
        yield f'<text x="{x + width / 2:.2f}" y="{y + 15}" class="{cell.op.lower()}">{cell.microbatch}</text>'


def draw_panel(drawn, scale, top, mark_updates):
    yield f'<text x="{MARGIN}" y="{top + 16}" class="title">{html.escape(drawn.title)}</text>'
    yield f'<text x="{WIDTH - MARGIN}" y="{top + 16}" class="end">{html.escape(drawn.note)}</text>'
    top += TITLE + (MARKS if mark_updates else 0)
    for stage in range(max(c.stage for c in drawn.cells) + 1):
        y = top + stage * (ROW + GAP)
        yield f'<text x="{MARGIN}" y="{y + 15}">stage {stage}</text>'
        width = (drawn.end - drawn.begin) * scale
        yield f'<rect x="{LEFT}" y="{y}" width="{width:.2f}" height="{ROW}" class="row"/>'
    updates = []  # drawn last, over the cells beside them
    for cell in drawn.cells:
        begin, end = max(cell.begin, drawn.begin), min(cell.end, drawn.end)
        x, y, width = LEFT + (begin - drawn.begin) * scale, top + cell.stage * (ROW + GAP), (end - begin) * scale
        if cell.op in COMPUTE:
            if width > 0:
                yield from draw_compute(cell, x, y, width)
        elif not mark_updates:
            if width > 0:
                updates.append(f'<rect x="{x:.2f}" y="{y}" width="{max(width, 1):.2f}" height="{ROW}" class="update"/>')
        elif cell.op == "Step" and cell.end <= drawn.end + 1e-6:
            x = LEFT + (cell.end - drawn.begin) * scale
            updates.append(f'<rect x="{x - 1.5:.2f}" y="{y - 2}" width="3" height="{ROW + 4}" class="update"/>')
            if cell.stage == 0:
                updates.append(f'<text x="{x:.2f}" y="{y - 5}" class="small middle">W({cell.batch + 1})</text>')
    yield from updates


def draw_axis(length, scale, top):
    yield f'<path d="M{LEFT} {top}h{length * scale:.2f}" class="axis"/>'
    step = next(s for s in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 1e5, 1e6) if length / s <= 10)
    for tick in range(int(length / step) + 1):
        x = LEFT + tick * step * scale
        yield f'<path d="M{x:.2f} {top}v4" class="axis"/>'
        label = f"{tick * step:g}" + (" ms" if tick == 0 else "")
        yield f'<text x="{x:.2f}" y="{top + 15}" class="small middle">{label}</text>'


def draw_legend(caption, mark_updates, top):
    light, dark = PALETTE[0]
    x = MARGIN
    swatches = [(light, "forward"), (dark, "backward"), ("#000", "update"), ("#fff", "idle")]
    for fill, name in swatches:
        width = 3 if name == "update" and mark_updates else 14
        outline = ' stroke="#d0d7de"' if name == "idle" else ""
        yield f'<rect x="{x}" y="{top}" width="{width}" height="14" fill="{fill}"{outline}/>'
        yield f'<text x="{x + width + 5}" y="{top + 11}">{name}</text>'
        x += width + 5 + 7 * len(name) + 12
    yield f'<text x="{x}" y="{top + 11}">number: microbatch; color: batch</text>'
    yield f'<text x="{WIDTH - MARGIN}" y="{top + 11}" class="end">{html.escape(caption)}</text>'


def draw(panels, caption, mark_updates):
    scale = (WIDTH - LEFT - MARGIN) / max(p.end - p.begin for p in panels)
    body, top = [], 10
    for drawn in panels:
        body += draw_panel(drawn, scale, top, mark_updates)
        stages = max(c.stage for c in drawn.cells) + 1
        top += TITLE + (MARKS if mark_updates else 0) + stages * (ROW + GAP) + 8
    body += draw_axis(max(p.end - p.begin for p in panels), scale, top)
    body += draw_legend(caption, mark_updates, top + 30)
    height = top + 56
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">',
        STYLE, f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#fff"/>', *body, "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    parser.add_argument("traces", nargs="+", metavar="TITLE=TRACE")
    parser.add_argument("--from-start", type=float, metavar="MS", help="draw this much time from the first instruction")
    parser.add_argument("--from-update", type=int, default=2, help="else: first update drawn, from 0")
    parser.add_argument("--updates", type=int, default=2, help="and how many")
    parser.add_argument("--caption", default="", help="right of the legend")
    arguments = parser.parse_args()
    panels = []
    for text in arguments.traces:
        title, _, path = text.rpartition("=")
        panels.append(panel(title or path, path, arguments))
    pathlib.Path(arguments.output).write_text(draw(panels, arguments.caption, bool(arguments.from_start)))


if __name__ == "__main__":
    main()
