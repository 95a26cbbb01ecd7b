"""Training on token files: exact, in the same order at any layout, and decoded again afterwards."""
import json
import unittest

from support import ROOT, TINY, TestCase, twobw, words

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
        for layout in ({"pipeline.stages": 3}, {"pipeline.replicas": 2, "pipeline.schedule": "flush"}):
            output = self.call("verify", *words({**self.settings, **layout}))
            self.assertIn("equal to the serial oracle, bit for bit", output)

    def test_the_layout_does_not_change_what_is_learned(self):
        """Eight sequences an update, cut up in other ways: equal but for rounding."""
        runs = [self.train({**self.settings, "pipeline.replicas": w, "pipeline.microbatches": m,
                            "pipeline.microbatch": b, "train.eval_every": 6, "train.eval_microbatches": 8 // b},
                           name=f"{w}-{m}-{b}") for w, m, b in ((1, 4, 2), (1, 2, 4), (2, 4, 1))]
        self.assertIn("training on " + str(self.folder / "data-train") + " (", runs[0].process.stdout)
        for run in runs[1:]:
            for a, b in zip(runs[0].lines, run.lines, strict=True):
                for key in ("loss", "validation_loss"):
                    self.assertAlmostEqual(a.get(key, 0), b.get(key, 0), delta=2e-4)

    def test_blended_corpora(self):
        """Exact, and the same however the batch is cut up."""
        (self.folder / "text.txt").write_text("more text, as bytes; " * 40)
        blend = "[{path: %s, weight: 0.7}, {path: %s, weight: 0.3}]"
        settings = {**self.settings, "data.train": blend % (self.folder / "data-train", self.folder / "text.txt"),
                    "data.validation": blend % (self.folder / "data-validation", "synthetic"),
                    "data.tokenizer": "bytes"}
        output = self.call("verify", *words({**TINY, **settings, "pipeline.stages": 2}))
        self.assertIn("equal to the serial oracle, bit for bit", output)
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
        for settings in ({}, text):
            output = self.call("verify", *words({**TINY, **masked, **settings}))
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
        for changes in ({"pipeline.stages": 1}, {"pipeline.stages": 2, "pipeline.recompute": "all"},
                        {"pipeline.stages": 3, "pipeline.recompute": "[1]", "model.dropout": 0.1},
                        {"pipeline.stages": 3, "model.family": "llama", "model.kv_heads": 2, "model.dropout": 0,
                         "data.train": blend % (self.folder / "data-train", self.folder / "data-validation")}):
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
        (self.folder / "text.txt").write_text("text " * 100)
        for changes, naming in (
                ({"model.vocab": 200, "data.tokenizer": "bytes"}, ["model.vocab is 200", "data.train", "holds token"]),
                ({"model.vocab": VOCAB - 1, "data.train": "synthetic", "data.validation": "synthetic"},
                 [f"model.vocab is {VOCAB - 1}", "data.tokenizer", f"{VOCAB} tokens"]),
                ({"data.train": self.folder / "text.txt"}, ["data.tokenizer", "data.train", "twobw prepare"]),
                ({"data.tokenizer": self.folder / "none"}, ["there is no tokenizer", "none'"]),
                ({"data.train": self.folder / "data"}, ["data.train", "data-train'"]),
                ({"data.train": self.folder / "none.bin"}, ["data.train", "none.idx' cannot be read"])):
            process = twobw("train", *words({**TINY, **self.settings, **changes, "run_dir": self.folder / "run"}))
            self.assertEqual(process.returncode, 2, process.stdout)
            self.assertRegex(process.stderr, r"\Atwobw: [^\n]+\n\Z")
            for text in naming:
                self.assertIn(text, process.stderr)
            self.assertFalse((self.folder / "run").exists())


if __name__ == "__main__":
    unittest.main()
