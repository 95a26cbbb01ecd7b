"""experiments/quadratic.py against closed forms, a simulation, and the tables of experiments/quadratic.md."""
import math
import re
import sys
import unittest

import numpy as np

from support import ROOT, slow

sys.path.insert(0, str(ROOT / "experiments"))
import quadratic  # noqa: E402

PAGE = (ROOT / "experiments" / "quadratic.md").read_text()
CURVATURE, SIGMA = 0.5, 2.0  # of the simulation; the script knows neither
CHAINS = 20000
FACTORS = {"weights": (1, 0), "update": (0, 1)}  # extrapolate_weights, extrapolate_update
MIXED = "predicted, then true"


def script_rule(rule, q):
    return quadratic.Rule("predicted", first=q) if rule == MIXED else quadratic.RULES[rule]


def simulate(rule, lr_h, mu, m, k, q, updates, chains, sigma):
    """W after every update, for independent chains that begin at 1: one gradient a microbatch, every W kept. P begins
    elsewhere, so that its distance from W can be seen to grow where it does."""
    random = np.random.default_rng(20)
    lr = lr_h / CURVATURE
    s, c = FACTORS.get(rule, (0, 0))
    weights, moment, before = [np.ones(chains)], np.zeros(chains), np.zeros(chains)
    predicted = weights[0] / 2
    for j in range(updates):
        stale, staler = weights[max(j - 1, 0)], weights[max(j - 2, 0)]
        point = weights[j] if rule == "flush" else predicted if "predicted" in rule else stale + s * (stale - staler)
        points = [weights[j] if rule == MIXED and i >= q else point for i in range(m)]
        gradients = [CURVATURE * point + sigma * random.standard_normal(chains) for point in points]
        predicted = weights[j] - lr * (mu * moment + (m / k) * sum(gradients[:k]) / m)
        moment = mu * moment + sum(gradients) / m
        update = -lr * moment
        weights.append(weights[j] + update + c * (update - before))
        before = update
    return np.array(weights)


def passed_on(a, m, k, q):
    """b: P(j+1) - W(j+1) has -b times P(j) - W(j) in it, since that part of its gradient was taken there."""
    return a * (min(q, k) / k - q / m)


def closed_threshold(rule, mu, m=quadratic.M, k=quadratic.K, q=quadratic.Q):
    """From the conditions of Jury on the characteristic polynomial."""
    if rule == "best":
        return (1 - mu / 2) ** 2
    if rule in FACTORS:  # a^2 + (1 - mu) a - (1 - mu) = 0
        return (math.sqrt((1 - mu) ** 2 + 4 * (1 - mu)) - (1 - mu)) / 2
    if rule == MIXED:
        return min(2 * (1 + mu), 1 / passed_on(1, m, k, q))
    return 1 - mu if rule == "delayed" else 2 * (1 + mu)


def closed_variance(rule, a, mu, m, k, q):
    if rule == "delayed":
        return a * (1 + mu + a) / ((1 - mu - a) * (2 * (1 + mu) + a)) / m
    flush = a * (1 + mu) / ((1 - mu) * (2 * (1 + mu) - a)) / m
    if rule == "flush":
        return flush
    extra = a * a * (m - k) / k
    if rule == MIXED:  # noise with the correlations (-b)^i, through the recurrence of flush
        b = passed_on(a, m, k, q)
        extra *= (q / m) ** 2 * (1 - mu * b * b - b * (1 - mu) * (1 + mu - a) / (1 + mu))
        extra /= (1 - b * b) * (1 + b * (1 + mu - a) + mu * b * b)
    return flush * (1 + extra)


@slow
class QuadraticTest(unittest.TestCase):
    def test_thresholds_are_the_closed_forms(self):
        for mu in (0.0, 0.3, 0.9, 0.97):
            for rule, found in quadratic.thresholds(mu).items():
                delta = 2e-6 if rule == "best" else 2e-9  # a golden section stops earlier than a bisection
                self.assertAlmostEqual(found, closed_threshold(rule, mu), delta=delta, msg=f"{rule} {mu}")
        for mu in (0.5, 0.9):
            self.assertAlmostEqual(quadratic.best_factor(mu), mu / (2 * (1 - mu / 2) ** 2), delta=2e-3, msg=mu)

        for m, k, q in ((8, 5, 4), (7, 4, 4), (16, 13, 4), (8, 4, 5), (3, 2, 1)):
            for mu in (0.0, 0.9):
                found = quadratic.threshold(script_rule(MIXED, q), mu, m, k)
                self.assertAlmostEqual(found, closed_threshold(MIXED, mu, m, k, q), delta=2e-9, msg=f"{m} {k} {q} {mu}")

    def test_many_microbatches_settle_as_stable_as_flush(self):
        """As the page says, on the first stage, for slack 1, no extra and one replica."""
        for d in range(2, 40):
            for m in range(2 * d - 1, 4 * d):
                found = 1 / passed_on(1, m, m - d + 1, d)
                self.assertGreater(found, 2, f"{d} {m}")
                if m >= 2.6 * d:
                    self.assertGreater(found, 4, f"{d} {m}")

    def test_simulation_turns_at_the_thresholds(self):
        shapes = {rule: ((2, 1, 1),) for rule in quadratic.RULES} | {MIXED: ((2, 1, 1), (8, 5, 4), (16, 13, 4))}
        for rule, (m, k, q) in ((rule, shape) for rule in shapes for shape in shapes[rule]):
            for mu in (0.0, 0.9):
                for factor, grows in ((0.99, False), (1.01, True)):
                    lr_h = factor * quadratic.threshold(script_rule(rule, q), mu, m, k)
                    w = np.abs(simulate(rule, lr_h, mu, m, k, q, updates=2000, chains=1, sigma=0)[:, 0])
                    change = w[-100:].max() / w[900:1000].max() if w[900:1000].max() else 0.0
                    self.assertTrue(change > 1.2 if grows else change < 0.8, f"{rule} {m} {mu} {factor}: {change}")

    def test_variances_are_the_closed_forms(self):
        for mu in (0.0, 0.5, 0.9):
            for rule, m, k, q in (("flush", 8, 8, 8), ("delayed", 8, 8, 8), ("predicted", 8, 8, 8),
                                  ("predicted", 8, 4, 8), ("predicted", 8, 1, 8), ("predicted", 5, 3, 5),
                                  (MIXED, 8, 5, 4), (MIXED, 7, 4, 4), (MIXED, 16, 13, 4), (MIXED, 8, 4, 5),
                                  (MIXED, 8, 1, 1)):
                for part in (0.01, 0.4, 0.95):
                    a = part * closed_threshold(rule, mu, m, k, q)
                    expected = closed_variance(rule, a, mu, m, k, q)
                    found = quadratic.stationary_variance(script_rule(rule, q), a, mu, m, k)
                    self.assertLess(abs(found / expected - 1), 1e-8, f"{rule} {mu} {m} {k} {q} {a}")

    def test_variances_are_those_of_a_simulation(self):
        tolerance = 4 * math.sqrt(2 / (CHAINS - 1))  # the standard error of a Gaussian's variance, four times
        for rule, lr_h, mu, m, k, q in (("flush", 0.3, 0.9, 4, 4, 4), ("delayed", 0.05, 0.9, 4, 4, 4),
                                        ("weights", 0.1, 0.9, 4, 4, 4), ("update", 0.1, 0.9, 4, 4, 4),
                                        ("predicted", 0.3, 0.9, 4, 4, 4), ("predicted", 1.0, 0.9, 4, 2, 4),
                                        ("predicted", 1.0, 0.5, 4, 1, 4), (MIXED, 1.0, 0.9, 8, 5, 4),
                                        (MIXED, 1.2, 0.9, 4, 2, 2), (MIXED, 1.5, 0.5, 4, 1, 2)):
            script = script_rule(rule, q)
            updates = 1 + math.ceil(math.log(1e-2) / math.log(quadratic.radius(script, lr_h, mu, m, k)))
            self.assertLess(updates, 200, f"{rule} {lr_h} {mu} {m} {k} {q}")
            variance = simulate(rule, lr_h, mu, m, k, q, updates, CHAINS, SIGMA)[-1].var()
            expected = quadratic.stationary_variance(script, lr_h, mu, m, k) * (SIGMA / CURVATURE) ** 2
            self.assertLess(abs(variance / expected - 1), tolerance, f"{rule} {lr_h} {mu} {m} {k} {q}")

    def test_page_shows_the_tables_as_printed(self):
        for table in (quadratic.threshold_table(), quadratic.floor_table(), quadratic.excess_table(),
                      quadratic.then_true_table()):
            self.assertIn(table + "\n", PAGE)

    def test_picture_is_what_the_script_draws(self):
        number = re.compile(r"\d+\.\d+")
        there, drawn = quadratic.PICTURE.read_text(), quadratic.draw()
        self.assertEqual(number.sub("", there), number.sub("", drawn))
        for a, b in zip(number.findall(there), number.findall(drawn)):
            self.assertAlmostEqual(float(a), float(b), delta=0.15)
