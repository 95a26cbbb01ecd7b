"""`twobw batches`: the microbatches that a run trains on, for another loop to train on the same."""

import torch
from safetensors.torch import load_file

from support import ROOT, TINY, TestCase, reference, twobw, words

BERT = {**TINY, "model.family": "bert", "pipeline.microbatches": 3}


class BatchesTest(TestCase):
    def batches(self, settings, updates):
        process = twobw("batches", *words(settings), "--updates", updates, "--out", self.folder / "out")
        self.assertEqual(process.returncode, 0, process.stderr)
        count = updates * settings["pipeline.microbatches"] * settings.get("pipeline.replicas", 1)
        self.assertEqual(process.stdout,
                         f"{count} microbatches of {updates} updates are in {self.folder / 'out'}\n")
        return load_file(self.folder / "out")

    def test_are_those_of_the_run(self):
        """The test-only program reads the source by itself, one microbatch after the other."""
        for settings in (BERT, {**BERT, "model.head": "regression"}, {**TINY, "pipeline.microbatches": 3},
                         {**TINY, "pipeline.microbatches": 3, "data.train": ROOT / "README.md", "model.vocab": 256,
                          "data.validation": ROOT / "README.md"}):
            found = self.batches(settings, 2)
            reference("batches", 6, self.folder / "expected", *words(settings))
            expected = load_file(self.folder / "expected")
            scales = {name: tensor for name, tensor in found.items() if name.startswith("loss_scale.")}
            self.assertEqual(len(found) - len(scales), len(expected))
            self.assertEqual(len(scales), 6)
            labels = [name for name in ("targets", "values") if f"{name}.0.0" in found]
            self.assertEqual(len(labels), 1)
            for update in range(2):
                count = 0
                for microbatch in range(3):
                    k = 3 * update + microbatch
                    for name in {name.rpartition(".")[0] for name in expected}:
                        tensor = found[f"{name}.{update}.{microbatch}"]
                        self.assertIs(tensor.dtype, torch.float64 if name == "values" else torch.int64)
                        self.assertTrue(torch.equal(tensor.float(), expected[f"{name}.{k}"]), f"{name} of {k}")
                    count += int((found[f"{labels[0]}.{update}.{microbatch}"] >= 0).sum())
                self.assertAlmostEqual(1 / scales[f"loss_scale.{update}.0"].item(), count)

    def test_replicas_share_an_update(self):
        """The same sequences in the same order, however many replicas there are."""
        one, two = self.batches({**TINY, "pipeline.microbatches": 4}, 2), self.batches(
            {**TINY, "pipeline.microbatches": 2, "pipeline.replicas": 2}, 2)
        self.assertEqual(set(one), set(two))
        for name, tensor in one.items():
            self.assertTrue(torch.equal(tensor, two[name]), name)

    def test_refusals(self):
        for arguments, naming in ((("--out", self.folder / "none/x"), "cannot be written"),
                                  (("--out", self.folder / "x", "--updates", 0), "--updates"),
                                  (("--out", self.folder / "x", "model.width=7"), "model.heads")):
            process = twobw("batches", *words(TINY), *arguments)
            self.assertEqual(process.returncode, 2, process.stdout)
            self.assertRegex(process.stderr, r"\Atwobw: [^\n]+\n\Z")
            self.assertIn(naming, process.stderr)
