"""Runs the commands of the documentation: every line of a ```console block that begins with `$ `.

A page is a lesson. Its blocks run in order, in a folder that looks like the repository: what the commands read is
linked, what they write stays there. Runs are made small: figures behind SIZES are divided, runs without them are SHORT,
and the model of the default configuration is SMALL. A block behind a line `<!-- not run: REASON -->` is left out. Slow pages run in `make test-all` only.
"""
import os
import pathlib
import re
import shlex
import socket
import subprocess
import sys
import unittest

from support import FULL, ROOT, TestCase

FAST = {
    "README.md",
    "docs/tutorials/first-run.md",
}
BLOCK = re.compile(r"^(<!-- not run: [^\n]+ -->\n)?```console\n(.*?)^```$", re.M | re.S)
SIZES = re.compile(r"(train\.updates=|train\.eval_\w+=|checkpoint\.every_updates=|optimizer\.warmup=|--updates )(\d\d+)")
DIVISOR = 50  # of figures with two digits and more
SHORT = "train.updates=6 train.eval_every=3 train.eval_microbatches=1 optimizer.warmup=1 pipeline.timeout=60"
SMALL = "model.width=32 model.heads=2"  # of the default configuration
SECONDS = 300

# A BERT like that of the tutorial, in a moment.
MINILM = """.venv/bin/python -c '
from transformers import BertConfig, BertModel
BertModel(BertConfig(vocab_size=2048, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
    max_position_embeddings=64)).save_pretrained("runs/minilm")'
build/twobw tokenizer train --vocab 2048 --special "[PAD]" --special "[UNK]" --special "[CLS]" --special "[SEP]" \
    --special "[MASK]" --out runs/minilm README.md"""

# Commands that prepare a page, instead of its unrun ones.
GIVEN = {
    "README.md": "build/twobw train configs/default.yaml",
    "docs/tutorials/first-run.md": "build/twobw train configs/default.yaml",
    "docs/tutorials/fine-tune-bert.md": MINILM,
    "docs/how-to/evaluate-generate.md": MINILM,
}


def is_incomplete(command):
    try:
        shlex.split(command, comments=True)
    except ValueError:  # an open quotation
        return True
    return command.endswith("\\")


def commands(text):
    """The commands of a block, without their output."""
    found = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append(line[2:])
        elif found and is_incomplete(found[-1]):
            found[-1] += "\n" + line
    return found


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def made_small(script):
    script = SIZES.sub(lambda found: f"{found[1]}{-(-int(found[2]) // DIVISOR)}", script)
    script = re.sub(r"\b(twobw\w* (?:train|compare))\b", rf"\1 {SHORT}", script)
    script = script.replace("configs/default.yaml", f"configs/default.yaml {SMALL}")
    return script.replace("MASTER_PORT=29500", f"MASTER_PORT={free_port()}")


def make_folder(folder):
    """A repository to type commands in."""
    for entry in ROOT.iterdir():
        if entry.name not in ("runs", "corpus", ".venv") and not entry.name.startswith(".git"):
            (folder / entry.name).symlink_to(entry)
    (folder / ".venv").symlink_to(sys.prefix)
    (folder / "runs").mkdir()
    (folder / "corpus").mkdir()
    sources = sorted((ROOT / "tests" / "python").glob("*.py"))
    (folder / "corpus" / "python.train.txt").write_bytes(b"".join(path.read_bytes() for path in sources[1:]))
    (folder / "corpus" / "python.validation.txt").write_bytes(sources[0].read_bytes())


class DocsTest(TestCase):
    def run_page(self, page):
        make_folder(self.folder)
        scripts = [GIVEN[page]] if page in GIVEN else []
        for unrun, text in BLOCK.findall((ROOT / page).read_text()):
            if not unrun:
                self.assertTrue(commands(text), f"{page}: a console block without a command:\n{text}")
                scripts.append("\n".join(commands(text)))
        for script in map(made_small, scripts):
            process = subprocess.run(
                ["timeout", str(SECONDS), "bash", "-euo", "pipefail", "-c", script], cwd=self.folder,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                errors="replace", env={**os.environ, "OMP_WAIT_POLICY": "passive"})
            self.assertEqual(process.returncode, 0, f"{page}:\n{script}\n\nprinted:\n{process.stdout[-3000:]}")


def test_of(page):
    return unittest.skipUnless(FULL or page in FAST, "make test-all")(lambda self: self.run_page(page))


for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
    page = str(path.relative_to(ROOT))
    setattr(DocsTest, "test_" + re.sub(r"\W", "_", page), test_of(page))
