#!/usr/bin/env python3
"""Makes a corpus of Python source from the packages installed in a folder.

The files are taken in an order that depends on their paths only, so the same packages give the same
corpus everywhere. Every 50th is held out: an excerpt of each goes to the validation file, so that few bytes stand for
many files. The others go to the training file.
"""

import argparse
import hashlib
import os
import sys
from pathlib import Path

LARGEST_FILE = 1_000_000  # beyond this it is data, not source
VALIDATION_EVERY = 50
EXCERPT = 2000  # bytes of a held-out file


def package_folders(root):
    """The site-packages folders below root, or root itself if there are none."""
    found = sorted(Path(folder) for folder, _, _ in os.walk(root) if Path(folder).name == "site-packages")
    return found or [Path(root)]


def python_files(root):
    """(relative path, path) of every *.py file, sorted; links are not followed."""
    files = []
    for base in package_folders(root):
        for folder, _, names in os.walk(base):
            paths = (Path(folder, name) for name in names if name.endswith(".py"))
            files += [(path.relative_to(base).as_posix(), path) for path in paths if path.is_file()]
    return sorted(files)


def read_source(path):
    """The bytes of a file that is worth having, else None."""
    if not 0 < path.stat().st_size <= LARGEST_FILE:
        return None
    data = path.read_bytes()
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return data if data.endswith(b"\n") else data + b"\n"


def collect(root, limit):
    """The sources in their final order: no content twice, at most `limit` bytes in all."""
    unique = {}
    for name, path in python_files(root):
        data = read_source(path)
        if data is not None:
            unique.setdefault(hashlib.sha256(data).digest(), (hashlib.sha256(name.encode()).digest(), path))
    chosen, total = [], 0
    for _, path in sorted(unique.values()):
        data = read_source(path)
        if total + len(data) > limit:
            break
        chosen.append(data)
        total += len(data)
    return chosen


def excerpt(data):
    """About EXCERPT bytes from the middle of a file: whole lines, where they are not too long."""
    begin = max(0, (len(data) - EXCERPT) // 2)
    begin = data.rfind(b"\n", 0, begin) + 1
    return data[begin:begin + EXCERPT]


def write(path, sources):
    """Writes the file atomically."""
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(b"".join(sources))
    partial.replace(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", nargs="?", default=".venv", help="folder to look in (default: .venv)")
    parser.add_argument("--out", type=Path, default=Path("corpus"), help="folder to write to (default: corpus)")
    parser.add_argument("--limit", type=int, default=32_000_000, help="most bytes in all (default: 32000000)")
    options = parser.parse_args()

    train, validation = options.out / "python.train.txt", options.out / "python.validation.txt"
    if train.exists() and validation.exists():
        return
    sources = collect(options.root, options.limit)
    if len(sources) < 2:
        parser.exit(2, f"make_corpus: '{options.root}' holds {len(sources)} usable Python files; it must hold 2\n")
    options.out.mkdir(parents=True, exist_ok=True)
    held_out = [excerpt(data) for data in sources[::VALIDATION_EVERY]]
    learned = [data for index, data in enumerate(sources) if index % VALIDATION_EVERY]
    write(train, learned)
    write(validation, held_out)
    print(f"make_corpus: {train} ({len(learned)} files, {sum(map(len, learned)) / 1e6:.1f} MB) and "
          f"{validation} ({len(held_out)} files, {sum(map(len, held_out)) / 1e6:.1f} MB)")


if __name__ == "__main__":
    sys.exit(main())
