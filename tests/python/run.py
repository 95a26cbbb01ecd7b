"""Runs the Python tests: python tests/python/run.py [names, as unittest takes them]."""
import pathlib
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))


def main():
    loader = unittest.TestLoader()
    if sys.argv[1:]:
        tests = loader.loadTestsFromNames(sys.argv[1:])
    else:
        tests = loader.discover(str(HERE), pattern="*_test.py")
    begin = time.monotonic()
    result = unittest.TextTestRunner(verbosity=1).run(tests)
    seconds = time.monotonic() - begin
    bad = len(result.failures) + len(result.errors)
    verdict = f"{bad} FAILED" if bad else "all passed"
    if result.skipped:
        verdict += f", {len(result.skipped)} skipped"
    print(f"Python tests: {result.testsRun} run, {verdict}, {seconds:.0f} s")
    return 1 if bad or not result.testsRun else 0


if __name__ == "__main__":
    sys.exit(main())
