"""`twobw verify` from outside; tests/engine/runtime/exactness_test.cc has the combinations of settings."""
import re

from support import TestCase, twobw, words


PAPER = {"pipeline.schedule": "2bw", "pipeline.predict": "false"}


class VerifyTest(TestCase):
    def equal(self, settings):
        process = twobw("verify", *words(settings), cwd=self.folder)
        self.assertEqual(process.returncode, 0, process.stdout + process.stderr)
        self.assertEqual(process.stderr, "")
        schedule = settings["pipeline.schedule"]
        predicts = schedule == "2bw" and settings.get("pipeline.predict") != "false"
        self.assertTrue(process.stdout.startswith(f"verify {schedule}{', predicted' if predicts else ''}: "))
        self.assertIn("equal to the serial oracle, bit for bit", process.stdout)
        self.assertEqual(list(self.folder.iterdir()), [], "verify leaves nothing behind")
        return process.stdout

    def test_the_prediction_matters(self):
        """`verify` could not see it if pipeline and oracle both left it out."""
        losses = []
        for settings in ({"pipeline.schedule": "2bw"}, PAPER, {"pipeline.schedule": "flush"}):
            output = self.equal({**settings, "pipeline.sync_updates": 0, "optimizer.lr": 1e-2})
            losses.append(re.search(r"last loss (\S+);", output)[1])
        self.assertEqual(len(set(losses)), 3, losses)

    def test_the_defaults_suit_every_family_and_head(self):
        for family, head in (("gpt", "regression"), ("llama", "classification"), ("bert", "masked_lm"), ("bert", "regression")):
            with self.subTest(family=family, head=head):
                self.equal({"pipeline.schedule": "2bw", "model.family": family, "model.head": head, "train.updates": 2})

    def test_the_help_lists_defaults_that_differ(self):
        output = twobw("verify", "--help").stdout
        self.assertIn("\n  model.layers=2\n", output)
        self.assertIn("model.dropout=0.1 if the family has dropout", output)

    def test_replicas(self):
        output = self.equal({"pipeline.schedule": "2bw", "pipeline.replicas": 2, "model.dropout": 0.1})
        self.assertIn("w=2 replicas of d=2 stages", output)
        self.assertIn("weights of every replica", output)
        process = twobw("verify", "--against", "flush", "pipeline.replicas=2", "pipeline.sync_updates=0")
        self.assertEqual(process.returncode, 1, process.stdout + process.stderr)
        self.assertIn("DIFFERENT from the serial oracle, first at update 1: loss", process.stdout)
