"""Token files beside Megatron's own reader and builder; `twobw prepare` interrupted, packed, and given bad input."""
import gzip
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import time
import types
import unittest

import numpy

import torture
from support import ROOT, TestCase, program, slow, twobw

HEADER = struct.Struct("<9sQBQQ")
TYPES = {1: numpy.uint8, 2: numpy.int8, 3: numpy.int16, 4: numpy.int32, 5: numpy.int64, 8: numpy.uint16}
OUTPUTS = ("out-train.bin", "out-train.idx", "out-validation.bin", "out-validation.idx", "out.json")


def megatron():
    """Its module of token files. What of megatron.core that needs is put in its place: all of it takes seconds."""
    if "megatron.core" not in sys.modules:
        core, utils = types.ModuleType("megatron.core"), types.ModuleType("megatron.core.utils")
        core.__path__ = [f"{folder}/core" for folder in importlib.util.find_spec("megatron").submodule_search_locations]
        utils.log_single_rank = lambda *_, **__: None
        sys.modules.update({core.__name__: core, utils.__name__: utils})
    from megatron.core.datasets import indexed_dataset

    return indexed_dataset


def documents(prefix):
    """The documents of a token file, by the format's description and nothing else."""
    index = pathlib.Path(f"{prefix}.idx").read_bytes()
    magic, version, code, sequences, marks = HEADER.unpack_from(index)
    assert (magic, version) == (b"MMIDIDX\x00\x00", 1)
    at = HEADER.size
    lengths = numpy.frombuffer(index, numpy.int32, sequences, at)
    pointers = numpy.frombuffer(index, numpy.int64, sequences, at + 4 * sequences)
    ends = numpy.frombuffer(index, numpy.int64, marks, at + 12 * sequences)
    assert len(index) == at + 12 * sequences + 8 * marks
    tokens = numpy.fromfile(f"{prefix}.bin", TYPES[code])
    parts = [tokens[p // tokens.itemsize:][:n].tolist() for p, n in zip(pointers, lengths, strict=True)]
    return [sum(parts[a:b], []) for a, b in zip(ends[:-1], ends[1:], strict=True)]


class CorpusTest(TestCase):
    def tokenizer(self):
        """A small BPE."""
        tokens = self.folder / "tokens"
        if not tokens.exists():
            texts = sorted((ROOT / "docs").rglob("*.md"))
            process = twobw("tokenizer", "train", "--vocab", 800, "--out", tokens, *texts)
            self.assertEqual(process.returncode, 0, process.stderr)
        return tokens

    def prepare(self, *arguments, out="out", expect=0):
        process = twobw("prepare", *arguments, "--out", self.folder / out)
        if "which this build lacks" in process.stderr:
            self.skipTest(process.stderr)
        self.assertEqual(process.returncode, expect, process.stderr)
        if expect:
            self.assertRegex(process.stderr, r"\Atwobw: [^\n]+\n\Z")
            self.assertEqual(process.stdout, "")
        else:
            self.assertEqual(process.stderr, "")
        return process

    def texts(self, *arguments, out="out"):
        """What `prepare` makes of inputs as bytes, decoded again."""
        self.prepare(*arguments, "--tokenizer", "bytes", "--validation", 0, out=out)
        return [bytes(tokens).decode(errors="surrogateescape") for tokens in documents(self.folder / f"{out}-train")]

    def outputs(self):
        return {name: (self.folder / name).read_bytes() for name in OUTPUTS}

    # Formats

    def test_jsonl_of_every_text(self):
        texts = [text for text in torture.texts() if text]
        for ascii_only in (True, False):
            path = self.folder / "in.jsonl"
            lines = [json.dumps({"id": i, "body": text}, ensure_ascii=ascii_only) for i, text in enumerate(texts)]
            path.write_text("\n".join(lines) + "\n", newline="")
            self.assertEqual(self.texts(path, "--field", "body"), texts)

    def test_ids_are_those_of_the_tokenizer(self):
        from tokenizers import Tokenizer

        texts = [text for text in torture.texts() if text]
        path = self.folder / "in.jsonl"
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        self.prepare(path, "--tokenizer", self.tokenizer(), "--validation", 0)
        reference = Tokenizer.from_file(str(self.tokenizer() / "tokenizer.json"))
        end = reference.token_to_id("<|endoftext|>")
        expected = [encoding.ids for encoding in reference.encode_batch(texts)]
        self.assertEqual(documents(self.folder / "out-train"), [ids + [end] for ids in expected])
        self.prepare(path, "--tokenizer", self.tokenizer(), "--validation", 0, "--no-eot")
        self.assertEqual(documents(self.folder / "out-train"), expected)

    @slow
    def test_a_long_document_is_encoded_like_a_short_one(self):
        from tokenizers import Tokenizer

        text = "".join(path.read_text() for path in sorted((ROOT / "docs").rglob("*.md")))
        text *= 2_200_000 // len(text) + 1  # three pieces
        (self.folder / "in.txt").write_text(text)
        self.prepare(self.folder / "in.txt", "--tokenizer", self.tokenizer(), "--validation", 0, "--no-eot")
        reference = Tokenizer.from_file(str(self.tokenizer() / "tokenizer.json"))
        self.assertEqual(documents(self.folder / "out-train"), [reference.encode(text).ids])

    def test_packed_inputs(self):
        path = self.folder / "in.jsonl.gz"
        lines = [json.dumps({"text": f"document {i} " + "ü" * (i % 50)}) + "\n" for i in range(20000)]
        expected = [json.loads(line)["text"] for line in lines]
        # Two members are one text.
        path.write_bytes(gzip.compress("".join(lines[:7000]).encode()) + gzip.compress("".join(lines[7000:]).encode()))
        self.assertEqual(self.texts(path), expected)
        path.write_bytes(path.read_bytes()[:-20])
        process = self.prepare(path, "--tokenizer", "bytes", expect=2, out="x")
        self.assertIn("truncated", process.stderr)
        damaged = bytearray(gzip.compress("".join(lines).encode()))
        damaged[-6] ^= 0xFF  # of the checksum
        path.write_bytes(damaged)
        process = self.prepare(path, "--tokenizer", "bytes", expect=2, out="x")
        self.assertIn("damaged", process.stderr)

    @unittest.skipUnless(shutil.which("zstd"), "the program zstd is not installed")
    def test_inputs_packed_by_zstd(self):
        plain, packed = self.folder / "in.tsv", self.folder / "in.tsv.zst"
        for part in range(2):
            plain.write_text("".join(f"{part}\tline {i}\n" for i in range(30000)))
            packed.open("ab").write(subprocess.run(["zstd", "-c", plain], capture_output=True, check=True).stdout)
        expected = [f"line {i}" for i in range(30000)] * 2
        self.assertEqual(self.texts(packed, "--column", 2), expected)
        packed.write_bytes(packed.read_bytes()[:-20])
        process = self.prepare(packed, "--tokenizer", "bytes", "--column", 2, expect=2, out="x")
        self.assertIn("truncated", process.stderr)

    def test_a_vocabulary_above_uint16(self):
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        tokens = self.folder / "vocab.txt"
        tokens.write_text("".join(f"{token}\n" for token in [*special, *(f"w{i}" for i in range(70000))]))
        (self.folder / "in.txt").write_text("w0 w69999 w65530 W65531\n\nw1")
        self.prepare(self.folder / "in.txt", "--tokenizer", tokens, "--eot", "[SEP]", "--split", "blank-lines",
                     "--validation", 0)
        self.assertEqual(documents(self.folder / "out-train"), [[5, 70004, 65535, 65536, 3], [6, 3]])
        self.assertEqual((self.folder / "out-train.bin").stat().st_size, 7 * 4)

    def test_folders_and_blank_lines(self):
        (self.folder / "in" / "b").mkdir(parents=True)
        (self.folder / "in" / "b" / "1.txt").write_text("one\n\ntwo\nlines\n\n\n")
        (self.folder / "in" / "a.txt").write_text("zero\n")
        (self.folder / "in" / "c.txt").write_text("")
        self.assertEqual(self.texts(self.folder / "in"), ["zero\n", "one\n\ntwo\nlines\n\n\n"])
        blocks = self.texts(self.folder / "in", "--split", "blank-lines")
        self.assertEqual(blocks, ["zero\n", "one\n", "two\nlines\n"])

    # Interruptions

    def test_one_document(self):
        """Its end is for validation; no set is empty."""
        (self.folder / "in.txt").write_text("0123456789" * 30)
        process = self.prepare(self.folder / "in.txt", "--tokenizer", "bytes", "--validation", 0.1)
        self.assertIn("too few documents for two sets: the last 10% of the tokens are for validation", process.stdout)
        sets = [documents(self.folder / f"out-{name}") for name in ("train", "validation")]
        self.assertEqual([[len(document) for document in documents] for documents in sets], [[270], [30]])
        self.assertEqual(bytes(sum(sets[0] + sets[1], [])), b"0123456789" * 30)

    def test_killed_and_run_again(self):
        (self.folder / "in").mkdir()
        for i in range(40):
            text = "".join(json.dumps({"text": f"{i} {line} " + "words " * (line % 40)}) + "\n" for line in range(3000))
            (self.folder / "in" / f"{i:02}.jsonl").write_text(text)
        arguments = [self.folder / "in", "--tokenizer", self.tokenizer(), "--validation", 0.2, "--workers", 2]
        self.prepare(*arguments)
        expected = self.outputs()
        for name in OUTPUTS:
            (self.folder / name).unlink()
        command = [program("TWOBW_BINARY", "twobw"), "prepare", *map(str, arguments), "--save-every", "0", "--out",
                   str(self.folder / "out")]
        state = self.folder / "out.partial.json"
        counts = []
        for least in (2, 8, 14):
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            while process.poll() is None:
                if state.exists() and len(json.loads(state.read_text())["finished"]) >= least:
                    break
                time.sleep(0.001)
            self.assertIsNone(process.poll(), "it ended before it was killed")
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
            counts.append(len(json.loads(state.read_text())["finished"]))
            self.assertFalse((self.folder / "out-train.bin").exists())
        self.assertLess(counts[-1], 40)
        process = self.prepare(*arguments)
        self.assertIn(f"resumed after {counts[-1]} files", process.stdout)
        self.assertEqual(self.outputs(), expected)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir() if path.is_file()), sorted(OUTPUTS))

    def test_bad_lines_lose_nothing(self):
        (self.folder / "in").mkdir()
        (self.folder / "in" / "1.jsonl").write_text('{"text": "one"}\n')
        bad = self.folder / "in" / "2.jsonl"
        bad.write_text('{"text": "two"}\n{"text": 3}\n')
        arguments = [self.folder / "in", "--tokenizer", "bytes", "--validation", 0]
        self.assertIn("2.jsonl:2", self.prepare(*arguments, expect=2).stderr)
        bad.write_text('{"text": "two"}\n{"text": "three"}\n')
        self.assertIn("resumed after 1 files", self.prepare(*arguments).stdout)
        self.assertEqual([bytes(ids) for ids in documents(self.folder / "out-train")], [b"one", b"two", b"three"])

    # Inspecting

    def test_inspect(self):
        path = self.folder / "in.jsonl"
        path.write_text("".join(json.dumps({"text": f"document {i}\x1b\n"}) + "\n" for i in range(100)))
        self.prepare(path, "--tokenizer", self.tokenizer(), "--validation-every", 10)
        for ending in ("", ".idx", ".bin"):
            process = twobw("inspect", f"{self.folder}/out-train{ending}", "--tokenizer", self.tokenizer())
            self.assertEqual(process.returncode, 0, process.stderr)
            self.assertIn("documents  90\n", process.stdout)
            self.assertIn("document 0\\x1b\n<|endoftext|>\n", process.stdout)
            self.assertIn("\ndocument 60, ", process.stdout)
        summary = json.loads((self.folder / "out.json").read_text())
        self.assertEqual(summary["sets"]["validation"]["documents"], 10)
        self.assertEqual(summary["sets"]["train"]["tokens"], sum(map(len, documents(self.folder / "out-train"))))
        ids = twobw("inspect", self.folder / "out-train", "--samples", 1, "--length", 100).stdout
        self.assertIn("\n" + " ".join(map(str, documents(self.folder / "out-train")[0])) + "\n", ids)
        refused = twobw("inspect", self.folder / "out-train", "--tokenizer", "bytes")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("'bytes' has only those below 256", refused.stderr)

    def test_bad_input(self):
        (self.folder / "text.txt").write_text("text")
        (self.folder / "bad.idx").write_bytes(b"text")
        (self.folder / "bad.bin").write_bytes(b"")
        out = ("--out", self.folder / "out")
        for arguments, naming in (
                (["prepare"], "required"), (["prepare", self.folder / "text.txt", *out], "--tokenizer is required"),
                (["prepare", self.folder / "no.txt", "--tokenizer", "bytes", *out], "no.txt"),
                (["prepare", self.folder / "text.txt", "--tokenizer", self.folder / "no", *out], "no'"),
                (["prepare", self.folder / "text.txt", "--tokenizer", "bytes", *out, "--validation", "2"], "2"),
                (["prepare", self.folder / "text.txt", "--tokenizer", "bytes", *out, "--format", "xml"], "xml"),
                (["prepare", self.folder / "text.txt", "--tokenizer", "bytes", *out, "--format", "jsonl"],
                 "text.txt:1' is not valid JSON"),
                (["prepare", self.folder / "text.txt", "--tokenizer", "bytes", *out, "--eot", "<end>"], "--eot"),
                (["prepare", self.folder / "text.txt", "--tokenizer", "bytes", "--out", self.folder / "text.txt" / "x"],
                 "--out"),
                (["inspect", self.folder / "no.idx"], "no.idx"), (["inspect", self.folder / "bad.idx"], "MMIDIDX")):
            process = twobw(*arguments)
            self.assertEqual(process.returncode, 2, (arguments, process.stderr))
            self.assertEqual(process.stdout, "")
            self.assertRegex(process.stderr, r"\Atwobw: [^\n]+\n\Z")
            self.assertIn(naming, process.stderr)
        self.assertFalse((self.folder / "out-train.bin").exists())


@unittest.skipUnless(importlib.util.find_spec("megatron"), "the package megatron-core is not installed")
class MegatronTest(TestCase):
    def test_its_reader_reads_ours(self):
        dataset = megatron()
        texts = [text for text in torture.texts() if text]
        path = self.folder / "in.jsonl"
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        tokens = self.folder / "tokens"
        (self.folder / "text.txt").write_text((ROOT / "README.md").read_text())
        twobw("tokenizer", "train", "--vocab", 600, "--out", tokens, self.folder / "text.txt")
        for tokenizer in ("bytes", tokens):
            out = ("--out", self.folder / "out", "--validation", 0.3)
            process = twobw("prepare", path, "--tokenizer", tokenizer, *out)
            self.assertEqual(process.returncode, 0, process.stderr)
            for name in ("out-train", "out-validation"):
                prefix = str(self.folder / name)
                expected = documents(prefix)
                for mmap in (True, False):
                    file = dataset.IndexedDataset(prefix, mmap=mmap)
                    self.assertEqual(file.index.dtype, numpy.uint16)
                    self.assertEqual([file[i].tolist() for i in range(len(file))], expected)
                    self.assertEqual(file.document_indices.tolist(), list(range(len(expected) + 1)))
            self.assertEqual(sum(len(documents(self.folder / f"out-{name}")) for name in ("train", "validation")),
                             len(texts))

    def test_we_read_what_its_builder_writes(self):
        import torch

        dataset = megatron()
        random = numpy.random.default_rng(1)
        for kind in (numpy.uint8, numpy.int8, numpy.int16, numpy.int32, numpy.int64, numpy.uint16):
            for multimodal in (False, True):
                prefix = str(self.folder / "theirs")
                builder = dataset.IndexedDatasetBuilder(prefix + ".bin", dtype=kind, multimodal=multimodal)
                expected = []
                for _ in range(20):
                    expected.append([])
                    for _ in range(random.integers(0, 4)):
                        most = min(numpy.iinfo(kind).max, 2**40)
                        ids = random.integers(0, most, random.integers(0, 30), dtype=numpy.int64, endpoint=True)
                        builder.add_item(torch.from_numpy(ids), 1)
                        expected[-1] += ids.tolist()
                    builder.end_document()
                builder.finalize(prefix + ".idx")
                process = twobw("inspect", prefix + ".idx", "--samples", 20, "--length", 1000)
                self.assertEqual(process.returncode, 0, process.stderr)
                self.assertIn(f"theirs: {kind.__name__} tokens{', with modes' if multimodal else ''}\n", process.stdout)
                shown = [part.split(":\n", 1)[1].split("\n")[0] for part in process.stdout.split("\ndocument ")[1:]]
                self.assertEqual([list(map(int, line.split())) for line in shown], expected)

    def test_the_same_bytes_as_its_builder(self):
        import torch

        dataset = megatron()
        texts = ["one", "two words", "ü"]
        (self.folder / "in.tsv").write_text("text\n" + "".join(f"{text}\n" for text in texts))
        options = ("--tokenizer", "bytes", "--validation", 0, "--out", self.folder / "ours")
        twobw("prepare", self.folder / "in.tsv", *options)
        builder = dataset.IndexedDatasetBuilder(str(self.folder / "theirs.bin"), dtype=numpy.uint16)
        for text in texts:
            builder.add_document(torch.tensor(list(text.encode())), [len(text.encode())])
        builder.finalize(str(self.folder / "theirs.idx"))
        for ending in ("bin", "idx"):
            self.assertEqual((self.folder / f"ours-train.{ending}").read_bytes(),
                             (self.folder / f"theirs.{ending}").read_bytes())
