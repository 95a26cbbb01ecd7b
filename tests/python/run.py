"""Runs the Python tests: python tests/python/run.py [names, as unittest takes them].

Without names all tests, two more at a time than there are cores, since many wait for processes; tests of a class with
a setUpClass of its own stay together. Classes with `alone = True` share a device and run by themselves at the end.
Slow tests (@slow, support.py) run in `make test-all`.
"""
import concurrent.futures
import io
import multiprocessing
import os
import pathlib
import sys
import time
import unittest

# Threads of OpenMP sleep while they wait: several programs share the cores.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
# Compiled modules are kept, also if the environment says otherwise: without them each import of torch, here or in a
# launcher, takes two more seconds, and one of transformers seven.
os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = str(HERE.parents[1] / "build" / "pycache")
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


class Outcome:
    """Results of a class, or of a name that was given."""

    def __init__(self):
        self.jobs = self.tests = self.bad = self.skipped = 0
        self.seconds, self.text = 0.0, ""

    def add(self, tests, bad, skipped, seconds, text):
        self.jobs, self.tests, self.bad, self.skipped = self.jobs - 1, self.tests + tests, self.bad + bad, self.skipped + skipped
        self.seconds, self.text = self.seconds + seconds, self.text + (text if bad else "")


def run_names(names):
    """(tests, bad ones, skipped ones, seconds, printed text)"""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    stream, begin = io.StringIO(), time.monotonic()
    result = unittest.TextTestRunner(stream=stream).run(unittest.defaultTestLoader.loadTestsFromNames(names))
    bad = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    return result.testsRun, bad, len(result.skipped), time.monotonic() - begin, stream.getvalue()


def tests_in(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from tests_in(test)
        else:
            yield test


def find_jobs():
    """[(class, whether it is to run alone, names)]"""
    jobs = {}
    for test in tests_in(unittest.defaultTestLoader.discover(str(HERE), pattern="*_test.py")):
        kind = type(test)
        own_setup = getattr(kind.setUpClass, "__func__", None) is not unittest.TestCase.setUpClass.__func__
        alone = getattr(kind, "alone", False)
        name = f"{kind.__module__}.{kind.__qualname__}"
        jobs.setdefault(name if own_setup or alone else test.id(), (name, alone, []))[2].append(test.id())
    return sorted(jobs.values(), key=lambda job: -len(job[2]))  # long ones first


def run_all():
    """Yields (class, outcome) as classes end."""
    jobs, outcomes = find_jobs(), {}
    for name, _, _ in jobs:
        outcomes.setdefault(name, Outcome()).jobs += 1

    def note(name, result):
        outcomes[name].add(*result)
        return [(name, outcomes[name])] if outcomes[name].jobs == 0 else []

    context = multiprocessing.get_context("fork")  # everything is imported once
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count() + 2, mp_context=context) as pool:
        running = {pool.submit(run_names, names): name for name, alone, names in jobs if not alone}
        for done in concurrent.futures.as_completed(running):
            yield from note(running[done], done.result())
    for name, alone, names in jobs:
        if alone:
            yield from note(name, run_names(names))


def run_named(names):
    for name in names:
        outcome = Outcome()
        outcome.add(*run_names([name]))
        yield name, outcome


def main():
    begin, tests, bad, skipped = time.monotonic(), 0, 0, 0
    for name, outcome in run_named(sys.argv[1:]) if sys.argv[1:] else run_all():
        tests, bad, skipped = tests + outcome.tests, bad + outcome.bad, skipped + outcome.skipped
        print(f"{name}: {outcome.tests} tests, {outcome.seconds:.0f} s", flush=True)
        if outcome.text:
            print(outcome.text, flush=True)
    verdict = f"{bad} FAILED" if bad else "all passed"
    if skipped:
        verdict += f", {skipped} skipped"
    print(f"Python tests: {tests} run, {verdict}, {time.monotonic() - begin:.0f} s")
    return 1 if bad or not tests else 0


if __name__ == "__main__":
    sys.exit(main())
