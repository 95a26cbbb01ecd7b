"""How fast byte-level BPE encodes: this program beside Hugging Face's tokenizers, on one core, in turn.

    python benchmarks/tokenizer.py TOKENIZER FILE [--rounds N] [--json FILE]

TOKENIZER is a folder with tokenizer.json, or with vocab.json and merges.txt. Both encode the whole file as one text,
and line by line (for tokenizers: one batch of all lines, the fastest call it has). Every round starts this program
anew, with empty caches; tokenizers keeps its caches from round to round. Counts of tokens must agree.
"""
import os

os.environ.update(RAYON_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")

import argparse
import json
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import time

import tokenizers

ROOT = pathlib.Path(__file__).resolve().parents[1]


def load(folder):
    whole = folder / "tokenizer.json"
    if whole.exists():
        return tokenizers.Tokenizer.from_file(str(whole))
    from transformers import GPT2TokenizerFast

    return GPT2TokenizerFast.from_pretrained(folder).backend_tokenizer


def run_ours(binary, folder, file, lines):
    command = [binary, "tokenizer", "encode", str(folder), str(file), "--count", *(["--lines"] if lines else [])]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    tokens, size, seconds = re.fullmatch(r"(\d+) tokens of (\d+) bytes in ([\d.]+) s\n", output).groups()
    return int(tokens), int(size) / float(seconds) / 1e6


def run_theirs(tokenizer, text, lines, size):
    begin = time.perf_counter()
    if lines:
        encoded = tokenizer.encode_batch_fast(lines, add_special_tokens=False)
    else:
        encoded = [tokenizer.encode(text, add_special_tokens=False)]
    seconds = time.perf_counter() - begin
    return sum(len(part.ids) for part in encoded), size / seconds / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer", type=pathlib.Path)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path, help="where to save all figures")
    options = parser.parse_args()
    binary = os.environ.get("TWOBW_BINARY", str(ROOT / "build" / "twobw"))

    # The processes that are started inherit the core.
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    data = options.file.read_bytes()
    text = data.decode()  # tokenizers takes nothing else
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    theirs = load(options.tokenizer)
    figures = {mode: {"twobw": [], "tokenizers": []} for mode in ("whole", "lines")}
    for round_number in range(options.rounds):
        for mode, rates in figures.items():
            by_line = mode == "lines"
            runs = {"twobw": lambda: run_ours(binary, options.tokenizer, options.file, by_line),
                    "tokenizers": lambda: run_theirs(theirs, text, lines if by_line else None, len(data))}
            order = list(runs) if round_number % 2 == 0 else list(runs)[::-1]
            counts = {}
            for name in order:
                counts[name], rate = runs[name]()
                rates[name].append(rate)
            if len(set(counts.values())) != 1:
                sys.exit(f"the counts of tokens differ: {counts}")

    print(f"{platform.machine()}, one core; tokenizers {tokenizers.__version__}; {options.rounds} rounds, in turn")
    print(f"{options.file.name}: {len(data)} bytes, {len(lines)} lines, {counts['twobw']} tokens")
    print(f"{'MB/s: median (min to max)':<28}{'twobw':>24}{'tokenizers':>24}{'ratio':>8}")
    for mode, rates in figures.items():
        cells = [f"{statistics.median(found):.1f} ({min(found):.1f} to {max(found):.1f})" for found in rates.values()]
        ratio = statistics.median(a / b for a, b in zip(rates["twobw"], rates["tokenizers"]))
        print(f"{'one text' if mode == 'whole' else 'line by line':<28}{cells[0]:>24}{cells[1]:>24}{ratio:>8.1f}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
