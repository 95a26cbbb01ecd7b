"""Runs the Python tests: python tests/python/run.py [names, as unittest takes them].

Without names all classes of tests, two more at a time than there are cores, since many wait for processes; those that
say `alone = True`, since all need the same device, by themselves at the end.
"""
import concurrent.futures
import io
import multiprocessing
import os
import pathlib
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))


def classes_in(suite):
    found = {}
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            found |= classes_in(test)
        else:
            kind = type(test)
            found[f"{kind.__module__}.{kind.__qualname__}"] = kind
    return found


def run_class(name):
    """(name, tests, bad ones, skipped ones, seconds, what it printed)"""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    stream, begin = io.StringIO(), time.monotonic()
    result = unittest.TextTestRunner(stream=stream).run(unittest.defaultTestLoader.loadTestsFromName(name))
    bad = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    return name, result.testsRun, bad, len(result.skipped), time.monotonic() - begin, stream.getvalue()


def run_all():
    """What run_class gives, as they end."""
    suite = unittest.defaultTestLoader.discover(str(HERE), pattern="*_test.py")
    classes = classes_in(suite)
    alone = [name for name, kind in classes.items() if getattr(kind, "alone", False)]
    together = [name for name in classes if name not in alone]
    context = multiprocessing.get_context("fork")  # everything is imported once
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count() + 2, mp_context=context) as pool:
        yield from (done.result() for done in concurrent.futures.as_completed(pool.submit(run_class, name)
                                                                              for name in together))
    yield from map(run_class, alone)


def main():
    begin, tests, bad, skipped = time.monotonic(), 0, 0, 0
    for name, run, wrong, left_out, seconds, text in run_all() if not sys.argv[1:] else map(run_class, sys.argv[1:]):
        tests, bad, skipped = tests + run, bad + wrong, skipped + left_out
        print(f"{name}: {run} tests, {seconds:.0f} s" + (f"\n{text}" if wrong or sys.argv[1:] else ""), flush=True)
    verdict = f"{bad} FAILED" if bad else "all passed"
    if skipped:
        verdict += f", {skipped} skipped"
    print(f"Python tests: {tests} run, {verdict}, {time.monotonic() - begin:.0f} s")
    return 1 if bad or not tests else 0


if __name__ == "__main__":
    sys.exit(main())
