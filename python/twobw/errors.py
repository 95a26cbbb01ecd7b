"""Exceptions. Their text is the program's own sentence."""
from __future__ import annotations


class TwobwError(Exception):
    """A command failed. `key` and `value` name the setting or option that is wrong, `remedy` says what helps; each is
    None if the sentence has none.

    >>> import twobw
    >>> try:
    ...     twobw.Config("pipeline.stages=0")
    ... except twobw.TwobwError as error:
    ...     print(error.key, error.value, error.remedy, sep=" | ")
    pipeline.stages | 0 | it must be a whole number of at least 1 and at most 65536
    """

    def __init__(
        self, message: str, key: str | None = None, value: str | None = None, remedy: str | None = None
    ) -> None:
        super().__init__(message)
        self.key = key
        self.value = value
        self.remedy = remedy


class InputError(TwobwError, ValueError):
    """A setting, an option or a file is wrong (exit code 2 on the command line).

    >>> import twobw
    >>> try:
    ...     twobw.schedule("2bw", stages=4, microbatches=2)
    ... except twobw.InputError as error:
    ...     print(error.remedy)
    the smallest allowed m is d+e = 4, or with pipeline.predict: false d-1+e = 3
    """


class RunError(TwobwError, RuntimeError):
    """A check or a run failed (exit code 1 on the command line).

    >>> import twobw
    >>> try:
    ...     twobw.load_run("runs/of-nobody")
    ... except twobw.TwobwError as error:
    ...     print(error)
    no run in 'runs/of-nobody': metrics.jsonl is missing
    """
