"""Finds and starts the programs. `main` is the command `twobw` of the environment."""
from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
from typing import Any, Mapping, NoReturn, Sequence

from .errors import InputError, RunError, TwobwError

Option = str | int | float | bool | os.PathLike[str] | Sequence[Any] | None


def program() -> str:
    """The path of the program: in the package, or what TWOBW_BINARY names.

    >>> import twobw.programs
    >>> pathlib.Path(twobw.programs.program()).name
    'twobw'
    """
    return os.environ.get("TWOBW_BINARY") or str(pathlib.Path(__file__).parent / "bin" / "twobw")


def environment() -> dict[str, str]:
    """The environment of the program, with the folder of the package torch, which is found and not imported.

    >>> import twobw.programs
    >>> "PATH" in twobw.programs.environment()
    True
    """
    torch = importlib.util.find_spec("torch")
    variables = dict(os.environ)
    if torch is not None and torch.submodule_search_locations:
        variables["TWOBW_TORCH"] = torch.submodule_search_locations[0]
    return variables


def main() -> NoReturn:
    """Becomes the program, with the arguments of this process."""
    path = program()
    os.execve(path, ["twobw", *sys.argv[1:]], environment())


def option_words(options: Mapping[str, Option]) -> list[str]:
    """Options as the command line takes them. None leaves an option out.

    >>> import twobw.programs
    >>> twobw.programs.option_words({"sync_updates": 2, "predict": False, "cluster": None, "forward": [1, 2]})
    ['--sync-updates=2', '--no-predict', '--forward=1,2']
    """
    words = []
    for name, value in options.items():
        name = name.replace("_", "-")
        if value is None:
            continue
        if isinstance(value, bool):
            words.append(f"--{name}" if value else f"--no-{name}")
        elif isinstance(value, (list, tuple)):
            words.append(f"--{name}={','.join(map(str, value))}")
        else:
            words.append(f"--{name}={os.fspath(value) if isinstance(value, os.PathLike) else value}")
    return words


def error_of(printed: str, complaint: str, exit_code: int) -> TwobwError:
    """The exception for a command that failed, made from its standard output and standard error."""
    if exit_code < 0:
        return RunError(f"twobw was ended by signal {-exit_code}")
    lines = [line for line in complaint.splitlines() if line]
    sentence = next((line for line in reversed(lines) if line.startswith("twobw: ")), "".join(lines[-1:]))
    sentence = sentence.removeprefix("twobw: ") or f"twobw ended with exit code {exit_code}"
    kind = InputError if exit_code == 2 else RunError
    try:
        error = json.loads(printed)["error"]
    except (ValueError, TypeError, KeyError):
        return kind(sentence)
    return kind(error["message"], error["key"], error["value"], error["remedy"])


def call(command: str, words: Sequence[str] = (), **options: Option) -> dict[str, Any]:
    """Runs a command with --json to its end and returns its result. Raises InputError or RunError.

    >>> import twobw.programs
    >>> twobw.programs.call("simulate", ["flush"], stages=2, microbatches=2)["stages"]
    2
    """
    arguments = [program(), command, *words, *option_words(options), "--json"]
    process = subprocess.run(
        arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", env=environment()
    )
    try:
        result = json.loads(process.stdout)
    except ValueError:
        result = None
    # A check that fails has a result too.
    if process.returncode not in (0, 1) or not isinstance(result, dict) or "error" in result:
        raise error_of(process.stdout, process.stderr, process.returncode)
    return result
