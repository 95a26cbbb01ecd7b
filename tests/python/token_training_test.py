"""Training on token files: exact, in the same order at any layout, and decoded again afterwards."""
import json
import re
import shutil
import subprocess

from processes import ProcessesTest
from support import ROOT, TINY, Run, TestCase, program, twobw, words

VOCAB = 400


class TokenTrainingTest(TestCase):
    def setUp(self):
        """Token files of a small BPE in the test's folder."""
        super().setUp()
        self.call("tokenizer", "train", "--vocab", VOCAB, "--out", self.folder / "tokens", ROOT / "README.md")
        lines = [json.dumps({"text": line}) + "\n" for line in (ROOT / "README.md").read_text().splitlines() if line]
        (self.folder / "lines.jsonl").write_text("".join(lines))
        self.call("prepare", self.folder / "lines.jsonl", "--tokenizer", self.folder / "tokens", "--out",
                  self.folder / "data", "--validation", 0.2)
        self.settings = {"model.vocab": VOCAB, "data.train": self.folder / "data-train",
                         "data.validation": self.folder / "data-validation.bin",
                         "data.tokenizer": self.folder / "tokens"}

    def call(self, *arguments):
        process = twobw(*arguments)
        self.assertEqual(process.returncode, 0, process.stdout + process.stderr)
        self.assertEqual(process.stderr, "")
        return process.stdout

    def test_a_pipeline_equals_the_oracle(self):
        output = self.call("verify", *words({**self.settings, "pipeline.stages": 3, "pipeline.replicas": 2}))
        self.assertIn("equal to the serial oracle, bit for bit", output)

    def test_blended_corpora(self):
        """The same for any partition of the batch."""
        (self.folder / "text.txt").write_text("more text, as bytes; " * 40)
        blend = "[{path: %s, weight: 0.7}, {path: %s, weight: 0.3}]"
        settings = {**self.settings, "data.train": blend % (self.folder / "data-train", self.folder / "text.txt"),
                    "data.validation": blend % (self.folder / "data-validation", "synthetic"),
                    "data.tokenizer": "bytes"}
        runs = [self.train({**settings, "pipeline.replicas": w, "pipeline.microbatches": m, "pipeline.microbatch": b},
                           name=f"{w}-{m}-{b}") for w, m, b in ((1, 4, 2), (2, 4, 1))]
        self.assertIn("training on 70% of " + str(self.folder / "data-train") + " (", runs[0].process.stdout)
        for a, b in zip(runs[0].losses, runs[1].losses, strict=True):
            self.assertAlmostEqual(a, b, delta=2e-4)

    def test_masked_tokens(self):
        """Few places have a target, and none has one twice: exact all the same."""
        masked = {"model.family": "bert", "pipeline.replicas": 2, "pipeline.stages": 2}
        (self.folder / "text.txt").write_text("text to be masked; " * 40)
        text = {"data.train": self.folder / "text.txt", "model.vocab": 257}
        output = self.call("verify", *words({**TINY, **masked, **text}))
        self.assertIn("equal to the serial oracle, bit for bit", output)
        run = self.train({**masked, **text, "train.eval_every": 3})
        self.assertIn("text.txt (760 bytes), masked", run.process.stdout)
        self.assertEqual(len(run.validations), 2)
        process = twobw("train", *words({**TINY, **self.settings, "model.family": "bert",
                                         "run_dir": self.folder / "none"}))
        self.assertEqual(process.returncode, 2)
        self.assertIn("has no mask token", process.stderr)

    def test_documents_by_themselves(self):
        """Exact on middle stages and with recomputation, blended, and generated from as one document."""
        reset = {**TINY, **self.settings, "model.reset_documents": "true", "pipeline.schedule": "2bw"}
        blend = "[{path: %s, weight: 0.7}, {path: %s, weight: 0.3}]"
        changes = {"pipeline.stages": 3, "model.family": "llama", "model.kv_heads": 2, "model.dropout": 0,
                   "pipeline.recompute": "all",
                   "data.train": blend % (self.folder / "data-train", self.folder / "data-validation")}
        output = self.call("verify", *words({**reset, **changes}))
        self.assertIn("equal to the serial oracle, bit for bit", output)
        plain = self.train(self.settings, name="plain")
        run = self.train({**self.settings, "model.reset_documents": "true"}, name="reset")
        self.assertIn("documents), each document by itself", run.process.stdout)
        self.assertNotEqual(run.losses, plain.losses)
        self.call("generate", run.folder, "--length", 30, "--prompt", "the")

    def test_what_is_generated_is_text(self):
        run = self.train(self.settings, arguments=["--sample", "12", "--prompt", "the pipeline"])
        self.assertIn("\nsample 3 of 3, 12 tokens:\nthe pipeline", run.process.stdout)
        texts = [self.call("generate", run.folder, "--length", 30, "--ignore-end", "--prompt", prompt)
                 for prompt in ("", "the", "the")]
        self.assertTrue(texts[1].startswith("the"))
        self.assertEqual(texts[1], texts[2])
        self.assertGreater(len(texts[1]), 33, "most tokens are more than a byte")

    def test_refusals(self):
        for changes, naming in (
                ({"model.vocab": 200, "data.tokenizer": "bytes"}, ["model.vocab is 200", "data.train", "holds token"]),
                ({"model.vocab": VOCAB - 1, "data.train": "synthetic", "data.validation": "synthetic"},
                 [f"model.vocab is {VOCAB - 1}", "data.tokenizer", f"{VOCAB} tokens"]),
                ({"data.tokenizer": self.folder / "none"}, ["there is no tokenizer", "none'"]),
                ({"data.train": self.folder / "data"}, ["data.train", "data-train'"]),
                ({"data.train": self.folder / "none.bin"}, ["data.train", "none.idx' cannot be read"])):
            process = twobw("train", *words({**TINY, **self.settings, **changes, "run_dir": self.folder / "run"}))
            self.assertEqual(process.returncode, 2, process.stdout)
            self.assertRegex(process.stderr, r"\Atwobw: [^\n]+\n\Z")
            for text in naming:
                self.assertIn(text, process.stderr)
            self.assertFalse((self.folder / "run").exists())


class TextTest(ProcessesTest):
    """A text or jsonl file and a tokenizer, without `prepare`."""

    def setUp(self):
        super().setUp()
        self.folder = self.folder.resolve()
        self.tokens, self.text = self.folder / "tokens", self.folder / "text.txt"
        self.quiet("tokenizer", "train", "--vocab", VOCAB, "--out", self.tokens, ROOT / "LICENSE")
        text = (ROOT / "LICENSE").read_text()
        self.text.write_text(text[:6000])
        self.lines = self.folder / "lines.jsonl"
        self.lines.write_text("".join(json.dumps({"body": line}) + "\n" for line in text[6000:9000].splitlines()))
        self.settings = {key: value for key, value in TINY.items() if key != "model.vocab"}
        self.settings |= {"data.train": self.text, "data.validation": self.lines, "data.text": "body",
                          "data.tokenizer": self.tokens, "train.eval_every": 3}

    def quiet(self, *arguments):
        process = twobw(*arguments)
        self.assertEqual((process.returncode, process.stderr), (0, ""), process.stdout)
        return process.stdout

    def run_of(self, name, **changes):
        """The run, and the files that were tokenized for it."""
        run = self.folder / "runs" / name
        process = twobw("train", *words({**self.settings, "run_dir": run, **changes}))
        self.assertEqual(process.returncode, 0, process.stdout + process.stderr)
        return Run(run, process), re.findall(r"(?m)^twobw: tokenizing \S+ '(\S+)' ", process.stderr)

    def refused(self, **changes):
        process = twobw("train", *words({**self.settings, "run_dir": self.folder / "runs" / "run", **changes}))
        self.assertEqual(process.returncode, 2, process.stdout + process.stderr)
        return process.stderr

    def prepared(self):
        """The same data as token files, and the vocabulary by hand."""
        for name, file in (("train", self.text), ("validation", self.lines)):
            self.quiet("prepare", file, "--tokenizer", self.tokens, "--field", "body", "--out", self.folder / name,
                       "--validation", 0)
        return {"data.train": self.folder / "train-train", "data.validation": self.folder / "validation-train",
                "model.vocab": VOCAB}

    def assert_same(self, run, other):
        for key in ("losses", "validations"):
            lines = [[{name: line[name] for name in ("update", "validation_loss")} for line in each.validations]
                     if key == "validations" else each.losses for each in (run, other)]
            self.assertEqual(*lines)
        name = "model/model.safetensors"
        self.assertEqual((run.folder / name).read_bytes(), (other.folder / name).read_bytes())

    def test_the_bits_of_prepared_files(self):
        run, tokenized = self.run_of("run", **{"checkpoint.every_updates": 3})
        self.assertEqual(tokenized, [str(self.text), str(self.lines)])
        self.assert_same(run, self.run_of("prepared", **self.prepared())[0])
        # A later run reads the same files, also once an unfinished attempt lies there.
        files = sorted((self.folder / "runs" / "token-cache").glob("*/tokens.???"))
        self.assertEqual([file.suffix for file in files], [".bin", ".idx"] * 2)
        times = [file.stat().st_mtime_ns for file in files]
        again, tokenized = self.run_of("again")
        self.assertEqual((tokenized, [file.stat().st_mtime_ns for file in files]), ([], times))
        self.assert_same(run, again)
        files[1].rename(f"{files[1]}.partial")
        (files[1].parent / "tokens.bin.partial").write_bytes(b"x" * 99999)
        (files[1].parent / "tokens.partial.json").write_text("{}")
        again, tokenized = self.run_of("once-more")
        self.assertEqual(len(tokenized), 1)
        self.assert_same(run, again)
        self.assertEqual(len(list(files[1].parent.iterdir())), 3)
        # The run's configuration has the user's own paths.
        config = (run.folder / "config.yaml").read_text()
        for setting in (f"train: {self.text} ", f"tokenizer: {self.tokens} ", f"vocab: {VOCAB} "):
            self.assertIn(f"  {setting}", config)
        self.quiet("train", f"resume={run.folder}", "train.updates=8")
        self.assertIn("bits per byte", self.quiet("eval", run.folder))
        self.assertIn("equal to the serial oracle", self.quiet(
            "verify", f"run_dir={run.folder}", f"data.train={self.text}", f"data.tokenizer={self.tokens}"))
        shutil.rmtree(self.tokens)  # the run has a copy
        self.quiet("train", f"resume={run.folder}", "train.updates=9")
        # Another text of the same name is tokenized too.
        shutil.copy(self.lines, self.text)
        moved = run.folder.rename(self.folder / "moved")
        process = twobw("eval", moved, f"data={self.text}")
        self.assertIn(f"tokenizing data.validation '{self.text}' ", process.stderr)
        self.assertTrue((self.folder / "token-cache").exists())

    def test_a_changed_text_replaces_its_token_files(self):
        self.run_of("before")
        cache = self.folder / "runs" / "token-cache"
        before = {path.name for path in cache.iterdir()}
        self.text.write_text(self.text.read_text()[:5000])
        run, tokenized = self.run_of("after")
        self.assertEqual(tokenized, [str(self.text)])
        after = {path.name for path in cache.iterdir()}
        self.assertEqual((len(before), len(after), len(before & after)), (2, 2, 1))
        self.assertIn(f"training on {self.text} (", run.process.stdout)

    def test_two_at_a_time(self):
        """One tokenizes, the other waits for it."""
        commands = [[program("TWOBW_BINARY", "twobw"), "train",
                     *words({**self.settings, "run_dir": self.folder / "runs" / name})] for name in ("a", "b")]
        processes = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                     for command in commands]
        errors = "".join(process.communicate(timeout=60)[1] for process in processes)
        self.assertEqual([process.returncode for process in processes], [0, 0], errors)
        self.assertEqual(errors.count("tokenizing"), 2, errors)
        self.assert_same(*(Run(self.folder / "runs" / name) for name in ("a", "b")))

    def test_several_processes(self):
        settings = {**self.settings, "pipeline.stages": 2}
        job = self.start_ranks(2, "train", settings={**settings, "run_dir": self.folder / "runs" / "two"})
        self.assertEqual(job.wait(60), [0, 0], job.everything())
        self.assertEqual("".join(map(job.errors, (0, 1))).count("tokenizing"), 2, job.everything())
        self.assert_same(Run(self.folder / "runs" / "two"), self.run_of("one", **{"pipeline.stages": 2})[0])

    def test_the_vocabulary_follows_the_data(self):
        prepared = self.prepared()
        del prepared["model.vocab"]
        self.quiet("prepare", self.text, "--tokenizer", "bytes", "--out", self.folder / "bytes")
        nothing = {"data.train": "synthetic", "data.validation": "synthetic", "data.tokenizer": "bytes"}
        for changes, vocab in (({}, VOCAB), ({**prepared, "data.tokenizer": "bytes"}, VOCAB), (nothing, 8192),
                               ({**nothing, "data.tokenizer": self.tokens}, VOCAB),
                               ({**nothing, "data.train": self.folder / "bytes-train.idx"}, 256),
                               ({**nothing, "data.train": self.text}, 256),
                               ({**nothing, "data.train": self.text, "model.family": "bert"}, 257),
                               ({"model.vocab": 512}, 512)):
            with self.subTest(**changes):
                self.quiet("plan", *words({**self.settings, **changes}), "--write", self.folder / "plan.yaml")
                self.assertIn(f"  vocab: {vocab} ", (self.folder / "plan.yaml").read_text())

    def test_refused_texts(self):
        """Before anything is tokenized, but for a line that is wrong."""
        (self.folder / "no.jsonl").write_text("{}\n")
        cache = self.folder / "runs" / "token-cache"
        for changes, naming in (
                ({"model.vocab": VOCAB - 1}, [f"model.vocab is {VOCAB - 1}", f"{VOCAB} tokens"]),
                ({"data.tokenizer": self.folder / "none"}, ["there is no tokenizer", "none'"]),
                ({"data.train": self.folder / "none.txt"}, ["data.train", "none.txt'", "cannot be read"]),
                ({"model.family": "bert"}, ["has no mask token"]),
                ({"model.reset_documents": "true"}, ["model.reset_documents", "--split blank-lines"])):
            error = self.refused(**changes)
            self.assertRegex(error, r"\Atwobw: [^\n]+\n\Z")
            for part in naming:
                self.assertIn(part, error)
            self.assertFalse(cache.exists())
        error = self.refused(**{"data.train": self.folder / "no.jsonl"})
        self.assertRegex(error, r"\Atwobw: tokenizing [^\n]+\ntwobw: data.train is '[^\n]+no.jsonl:1'[^\n]+'body'")
        self.assertEqual(list(cache.glob("*/*")), [])
        shutil.rmtree(cache)
        cache.write_text("")
        error = self.refused()
        self.assertRegex(error, r"\Atwobw: data.train is [^\n]+token-cache[^\n]+; give another run_dir[^\n]+\n\Z")
