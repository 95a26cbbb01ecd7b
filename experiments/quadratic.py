#!/usr/bin/env python3
"""Delayed, extrapolated and predicted gradients on f(w) = h w^2 / 2: where each rule is stable, and its noise floor.

`.venv/bin/python experiments/quadratic.py` prints the tables of experiments/quadratic.md and draws
docs/images/quadratic.svg.

One update is the program's sgd, M <- mu M + g, W <- W - lr M, with a gradient taken at the point that the rule names.
Each of the m microbatches of an update adds independent noise of variance sigma^2 to its gradient. Only lr h matters,
so here h = 1 and sigma = 1: a variance of W is in units of sigma^2 / h^2.
"""
import math
import pathlib
from typing import NamedTuple

import numpy as np

PICTURE = pathlib.Path(__file__).resolve().parents[1] / "docs" / "images" / "quadratic.svg"
MU, M = 0.9, 8  # of the tables of the noise floor
STAGES = 4  # of the pipeline whose first stage has these K and Q, with pipeline.extra 0 and pipeline.step_slack 1
K, Q = M - STAGES + 1, STAGES


class Rule(NamedTuple):
    point: str  # what batch j computes on: "now" W(j), "before" W(j-1), "predicted" P(j)
    weights: float = 0.0  # optimizer.extrapolate_weights
    update: float = 0.0  # optimizer.extrapolate_update
    first: int | None = None  # q: the first microbatches of a batch compute on it, the others on W(j); None: all


RULES = {
    "flush": Rule("now"),
    "delayed": Rule("before"),
    "weights": Rule("before", weights=1.0),
    "update": Rule("before", update=1.0),
    "predicted": Rule("predicted"),
    "predicted, then true": Rule("predicted", first=Q),
}
LABELS = {
    "flush": "flush: W(j)",
    "delayed": "delayed: W(j-1), the paper's 2BW",
    "weights": "delayed, extrapolate_weights 1",
    "update": "delayed, extrapolate_update 1",
    "best": "delayed, the best factor of either",
    "predicted": "predicted: P(j)",
    "predicted, then true": f"predicted, then true: P(j), W(j); m = {M}, k = {K}, q = {Q}",
}


def step(rule, state, noise, lr_h, mu, k):
    """One update, as the program makes it. Row i of noise is microbatch i's; the first k make the prediction."""
    w, w1, w2, momentum, u1, predicted = state  # W(j), W(j-1), W(j-2), S(j), the update before, P(j)
    point = {"now": w, "before": w1 + rule.weights * (w1 - w2), "predicted": predicted}[rule.point]
    gradients = point + noise
    if rule.first is not None:
        gradients[rule.first:] = w + noise[rule.first:]
    moved = mu * momentum + gradients.mean(axis=0)
    u = -lr_h * moved
    ahead = w - lr_h * (mu * momentum + gradients[:k].mean(axis=0))  # P(j+1)
    return np.stack([w + u + rule.update * (u - u1), w, w1, moved, u, ahead])


def recurrence(rule, lr_h, mu, m=1, k=1):
    """A and B of state <- A state + B noise."""
    return (step(rule, np.eye(6), np.zeros((m, 6)), lr_h, mu, k),
            step(rule, np.zeros((6, m)), np.eye(m), lr_h, mu, k))


def radius(rule, lr_h, mu, m=1, k=1):
    return np.abs(np.linalg.eigvals(recurrence(rule, lr_h, mu, m, k)[0])).max()


def threshold(rule, mu, m=1, k=1):
    """The largest stable lr h. Only where some microbatches run on W(j) do m and k matter."""
    low, high = 0.0, 5.0
    for _ in range(32):
        middle = (low + high) / 2
        low, high = (middle, high) if radius(rule, middle, mu, m, k) < 1 else (low, middle)
    return low


def best_factor(mu):
    """The extrapolate_weights that allows the largest lr h, by golden section."""
    low, high, ratio = 0.0, 2.5, (math.sqrt(5) - 1) / 2
    for _ in range(15):
        width = ratio * (high - low)
        left = threshold(Rule("before", high - width), mu) > threshold(Rule("before", low + width), mu)
        low, high = (low, low + width) if left else (high - width, high)
    return (low + high) / 2


def thresholds(mu):
    """The largest stable lr h of every rule."""
    found = {name: threshold(rule, mu, M, K) for name, rule in RULES.items()}
    found["best"] = threshold(Rule("before", best_factor(mu)), mu)
    return found


def stationary_variance(rule, lr_h, mu, m, k):
    """The variance of W(j) for j -> infinity, in sigma^2 / h^2: X = A X A' + B B' solved; infinite where unstable."""
    rule = RULES.get(rule, rule)
    if radius(rule, lr_h, mu, m, k) >= 1:
        return math.inf
    a, b = recurrence(rule, lr_h, mu, m, k)
    return np.linalg.solve(np.eye(36) - np.kron(a, a), (b @ b.T).ravel())[0]


# ---- the tables ----------------------------------------------------------------------------------------------------

def table(head, rows):
    lines = ["| " + " | ".join(line) + " |" for line in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def figures(value):
    return "unstable" if math.isinf(value) else f"{value:.4g}"


def threshold_table():
    mus = (0.0, 0.5, 0.9, 0.95)
    found = [thresholds(mu) for mu in mus]
    head = ["largest stable lr h", *(f"mu = {mu:g}" for mu in mus), "mu = 0.9, over 1 - mu"]
    return table(head, [[label, *(figures(of[name]) for of in found), figures(found[2][name] / (1 - mus[2]))]
                        for name, label in LABELS.items()])


FLOORS = [("flush", "flush", M), ("delayed", "delayed", M), ("weights", "weights 1", M), ("update", "update 1", M),
          *(("predicted", f"predicted, k = {k}", k) for k in (M, K, 1)),
          ("predicted, then true", f"predicted, then true, k = {K}, q = {Q}", K)]


def floor(name, scaled, k, m=M):
    """The variance of W for lr h / (1 - mu) = scaled, over that of the batch's gradient, sigma^2 / (m h^2)."""
    return m * stationary_variance(name, scaled * (1 - MU), MU, m, k)


def floor_table():
    return table(["lr h / (1 - mu)", *(label for _, label, _ in FLOORS)],
                 [[f"{scaled:g}", *(figures(floor(name, scaled, k)) for name, _, k in FLOORS)]
                  for scaled in (0.1, 0.5, 0.9, 2, 5, 10, 20, 30)])


EXCESS_AT = 0.5  # lr h


def excess(rule, m, k):
    """The variance of W that flush does not have."""
    return stationary_variance(rule, EXCESS_AT, MU, m, k) - stationary_variance("flush", EXCESS_AT, MU, m, k)


def excess_table():
    rows = []
    for m, k in ((8, 7), (8, 5), (8, 4), (8, 1), (16, 13), (32, 29), (64, 61)):
        extra, share = excess("predicted", m, k), (m - k) / (k * m)
        rows.append([f"{m}", f"{k}", f"{share:.5f}", f"{extra:.5f}", f"{extra / share:.4f}"])
    return table(["m", "k", "(m - k) / (k m)", "extra variance", "quotient"], rows)


def then_true_table():
    """The first stage of STAGES, where k is smallest, by m."""
    q, rows = STAGES, []
    for m in (7, 8, 10, 16, 32):
        k, rule = m - STAGES + 1, Rule("predicted", first=q)
        all_on_p, some = excess("predicted", m, k), excess(rule, m, k)
        rows.append([f"{m}", f"{k}", f"{q}", figures(threshold(rule, MU, m, k)), f"{all_on_p:.6f}", f"{some:.6f}",
                     f"{some / all_on_p:.4f}", f"{(q / m) ** 2:.4f}"])
    return table(["m", "k", "q", "largest stable lr h", "extra variance, all on P(j)", "the first q on P(j)",
                  "quotient", "(q / m)^2"], rows)


# ---- the picture ---------------------------------------------------------------------------------------------------

STYLE = """<style>
text { font: 12px -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #24292f }
.title { font-size: 14px; font-weight: 600 }
.tick { font-size: 10px; fill: #57606a }
.middle { text-anchor: middle }
.end { text-anchor: end }
.grid { stroke: #eaeef2 }
.frame { fill: none; stroke: #8c959f }
polyline { fill: none; stroke-width: 2 }
</style>"""
COLORS = {"flush": "#24292f", "delayed": "#ad3560", "weights": "#b9621b", "update": "#7748a6", "best": "#d39a2d",
           f"predicted {K}": "#2f6fb5", "predicted 1": "#3c9a5f", "predicted, then true": "#10a5b8"}
TOP, HEIGHT, WIDTH = 64, 280, 380


class Panel:
    """Axes, each from begin to end, logarithmic where asked."""

    def __init__(self, left, title, x, y, x_log):
        self.left, self.x, self.y, self.x_log = left, x, y, x_log
        self.body = [f'<text x="{left}" y="28" class="title">{title[0]}</text>',
                     f'<text x="{left}" y="47">{title[1]}</text>',
                     f'<text x="{left + WIDTH / 2:g}" y="{TOP + HEIGHT + 34}" class="middle">{title[2]}</text>']

    def at(self, x, y):
        def part(value, ends, log):
            value, *ends = map(math.log, (value, *ends)) if log else (value, *ends)
            return (value - ends[0]) / (ends[1] - ends[0])
        return self.left + WIDTH * part(x, self.x, self.x_log), TOP + HEIGHT * (1 - part(y, self.y, True))

    def ticks(self, xs, ys):
        bottom = TOP + HEIGHT
        for value in xs:
            x = self.at(value, self.y[0])[0]
            self.body += [f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" class="grid"/>',
                          f'<text x="{x:.1f}" y="{bottom + 15}" class="tick middle">{value:g}</text>']
        for value in ys:
            y = self.at(self.x[0], value)[1]
            self.body += [f'<line x1="{self.left}" y1="{y:.1f}" x2="{self.left + WIDTH}" y2="{y:.1f}" class="grid"/>',
                          f'<text x="{self.left - 6}" y="{y + 3.5:.1f}" class="tick end">{value:g}</text>']
        self.body.append(f'<rect x="{self.left}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" class="frame"/>')

    def curve(self, points, color, dash=""):
        """Ends at the frame where the curve would leave it."""
        inside = [self.at(x, min(y, self.y[1])) for x, y in points if not math.isinf(y)]
        while len(inside) > 1 and inside[-2][1] <= TOP:
            inside.pop()
        drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in inside)
        self.body.append(f'<polyline points="{drawn}" stroke="{color}"{dash and f" stroke-dasharray={dash!r}"}/>')

    def name(self, row, text, color, dash=""):
        y = TOP + 18 + 17 * row
        self.body += [f'<polyline points="{self.left + 12},{y - 4} {self.left + 36},{y - 4}" stroke="{color}"'
                      f'{dash and f" stroke-dasharray={dash!r}"}/>',
                      f'<text x="{self.left + 42}" y="{y}">{text}</text>']


def first_on_top(curves):
    """Numbered, the first one drawn last."""
    first, *others = enumerate(curves)
    return [*others, first]


def draw():
    left = Panel(56, ("Largest stable lr h / (1 - mu)", "without noise", "momentum mu"), (0, 0.98), (0.5, 200), False)
    left.ticks((0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.98), (0.5, 1, 2, 5, 10, 38, 100, 200))
    found = [(mu, thresholds(mu)) for mu in (*np.linspace(0, 0.9, 13), 0.92, 0.94, 0.96, 0.97, 0.98)]
    names = {"flush": "flush; predicted", "predicted, then true": FLOORS[-1][1] + f" (m = {M})",
             "best": "delayed, best factor of extrapolation", "weights": "delayed, extrapolate_weights or _update 1",
             "delayed": "delayed (the paper's 2BW)"}
    for row, (name, text) in first_on_top(names.items()):
        left.curve([(mu, of[name] / (1 - mu)) for mu, of in found], COLORS[name])
        left.name(row, text, COLORS[name])

    right = Panel(500, (f"Noise floor, mu = {MU:g}, m = {M}", "variance of W over that of the batch's gradient / h^2",
                        "lr h / (1 - mu)"), (0.02, 38), (0.005, 3000), True)
    right.ticks((0.02, 0.1, 0.5, 1, 2, 5, 10, 20, 38), (0.01, 0.1, 1, 10, 100, 1000))
    for row, (name, text, k) in first_on_top(FLOORS):
        if (name, k) == ("predicted", M):  # the same as flush
            continue
        end = threshold(RULES[name], MU, M, k) / (1 - MU)
        odds = np.geomspace(0.02 / (end - 0.02), 1e5, 200)
        color = COLORS[f"predicted {k}" if name == "predicted" else name]
        dash = "6 5" if name == "update" else ""
        right.curve([(x, floor(name, x, k)) for x in end * odds / (1 + odds)], color, dash)
        text = text.removeprefix("predicted, ") if name == "predicted, then true" else text  # for room
        right.name(row - (row > 4), text if row else f"flush; predicted, k = {M}", color, dash)
    width, height = 500 + WIDTH + 20, TOP + HEIGHT + 46
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
                      f'viewBox="0 0 {width} {height}">', STYLE, f'<rect width="{width}" height="{height}" rx="8" '
                      'fill="#fff"/>', *left.body, *right.body, "</svg>"]) + "\n"


def main():
    print(threshold_table(), floor_table(), excess_table(), then_true_table(), sep="\n\n")
    PICTURE.write_text(draw())


if __name__ == "__main__":
    main()
