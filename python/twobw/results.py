"""What results have in common: they are dataclasses made of the program's JSON, and tables."""
from __future__ import annotations

import dataclasses
import html
import types
import typing
from typing import Any, Sequence, TypeVar, Union

T = TypeVar("T")


def decode(kind: Any, value: Any) -> Any:
    """A value of JSON as a dataclass, a list or a mapping of them, or as it is. Keys that a dataclass lacks stay in its
    `json`.

    >>> import twobw.planning, twobw.results
    >>> twobw.results.decode(list[twobw.planning.Place], [{"node": "a", "device": 1}])
    [Place(node='a', device=1)]
    """
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        kept = [argument for argument in arguments if argument is not type(None)]
        return None if value is None else decode(kept[0], value) if len(kept) == 1 else value
    if origin is list:
        return [decode(arguments[0], item) for item in value]
    if origin is dict:
        return {key: decode(arguments[1], item) for key, item in value.items()}
    if not dataclasses.is_dataclass(kind):
        return value
    hints = typing.get_type_hints(kind)
    fields = {
        field.name: decode(hints[field.name], value[name])
        for field in dataclasses.fields(kind)
        if (name := field.metadata.get("key", field.name)) in value
    }
    if "json" in hints:
        fields["json"] = value
    return typing.cast(type, kind)(**fields)


def raw_json() -> Any:
    """A field with all that the program printed for this object."""
    return dataclasses.field(repr=False, compare=False)


class Table:
    """A result that is shown as a table: in a notebook, and by to_pandas(). print() shows its title."""

    def title(self) -> str:
        """The result in a sentence."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.title()

    def rows(self) -> list[dict[str, Any]]:
        """The rows of the table, as mappings of column to value."""
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """The rows as a pandas.DataFrame; needs pandas.

        >>> import twobw
        >>> list(twobw.simulate("flush", stages=2, microbatches=2).to_pandas()["forward"])
        [2, 2]
        """
        import pandas

        return pandas.DataFrame(self.rows())

    def _repr_html_(self) -> str:
        return html_table(self.rows(), self.title())


def shown(value: Any) -> str:
    """A figure in a few digits, anything else as text.

    >>> import twobw.results
    >>> twobw.results.shown(0.123456), twobw.results.shown(42331.6), twobw.results.shown(None)
    ('0.1235', '42,332', '-')
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value)


def count(number: int, noun: str) -> str:
    """A number of things.

    >>> import twobw.results
    >>> twobw.results.count(1, "stage"), twobw.results.count(2, "stage")
    ('1 stage', '2 stages')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def html_table(rows: Sequence[dict[str, Any]], caption: str = "") -> str:
    """An HTML table.

    >>> import twobw.results
    >>> twobw.results.html_table([{"stage": 0, "busy": 0.5}])
    '<table><tr><th>stage</th><th>busy</th></tr><tr><td>0</td><td>0.5</td></tr></table>'
    """
    if not rows:
        return f"<p>{html.escape(caption)}</p>"
    columns = list(dict.fromkeys(column for row in rows for column in row))
    head = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(shown(row.get(column)))}</td>" for column in columns) + "</tr>"
        for row in rows
    )
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<tr>{head}</tr>{body}</table>"


@dataclasses.dataclass(frozen=True)
class Bar:
    """A bar of a timeline: from begin to end in its row, coloured by the version of the weights."""

    row: int
    begin: float
    end: float
    label: str
    title: str
    version: int
    backward: bool = False


# Neighbours differ, for colour-blind readers too.
COLORS = ["#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#0072b2", "#d55e00"]


def draw_bars(names: Sequence[str], bars: Sequence[Bar], end: float, unit: str, width: int = 900) -> str:
    """Rows of bars over time, as SVG; backwards are paler than forwards.

    >>> import twobw.results
    >>> bar = twobw.results.Bar(row=0, begin=0, end=1, label="0", title="forward of 0", version=0)
    >>> twobw.results.draw_bars(["stage 0"], [bar], end=2, unit="ticks").count("<rect")
    1
    """
    left, height, gap = 70, 24, 6
    scale = (width - left) / end if end > 0 else 0.0
    parts = []
    for row, name in enumerate(names):
        y = row * (height + gap)
        parts.append(f'<text x="0" y="{y + 16}">{html.escape(name)}</text>')
        parts.append(f'<line x1="{left}" x2="{width}" y1="{y + height}" y2="{y + height}" stroke="#ccc"/>')
    for bar in bars:
        if bar.begin >= end:
            continue
        x, y = left + bar.begin * scale, bar.row * (height + gap)
        wide = (min(bar.end, end) - bar.begin) * scale
        color, opacity = COLORS[bar.version % len(COLORS)], 0.55 if bar.backward else 1
        parts.append(
            f'<g><title>{html.escape(bar.title)}</title><rect x="{x:.1f}" y="{y}" width="{max(wide, 0.5):.1f}" '
            f'height="{height}" fill="{color}" fill-opacity="{opacity}" stroke="white" stroke-width="0.5"/>'
        )
        if wide >= 7 * len(bar.label):
            parts.append(f'<text x="{x + wide / 2:.1f}" y="{y + 16}" text-anchor="middle">{html.escape(bar.label)}</text>')
        parts.append("</g>")
    total = len(names) * (height + gap)
    parts.append(f'<text x="{left}" y="{total + 14}">0</text>')
    parts.append(f'<text x="{width}" y="{total + 14}" text-anchor="end">{shown(float(end))} {html.escape(unit)}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {total + 20}" width="{width}" '
        f'font-family="sans-serif" font-size="12">{"".join(parts)}</svg>'
    )


def draw_curve(points: Sequence[tuple[float, float]], name: str, width: int = 450, height: int = 120) -> str:
    """A curve with its first and last value, as SVG.

    >>> import twobw.results
    >>> twobw.results.draw_curve([(1, 4.0), (2, 3.5)], "loss").count("polyline")
    1
    """
    if not points:
        return ""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    wide, high = (max(xs) - min(xs)) or 1.0, (max(ys) - min(ys)) or 1.0
    places = " ".join(
        f"{(x - min(xs)) / wide * width:.1f},{(max(ys) - y) / high * height + 4:.1f}" for x, y in points
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height + 24}" width="{width}" '
        f'font-family="sans-serif" font-size="12"><polyline fill="none" stroke="{COLORS[0]}" stroke-width="1.5" '
        f'points="{places}"/><text x="0" y="{height + 20}">{html.escape(name)} {shown(ys[0])} to {shown(ys[-1])}'
        f"</text></svg>"
    )
