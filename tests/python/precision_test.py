"""The loss scale of fp16, from outside."""

from support import TWO_CORES, TestCase


class LossScaleTest(TestCase):
    SETTINGS = {"train.precision": "fp16", "pipeline.schedule": "2bw", "pipeline.stages": 2,
                "pipeline.split": "[6, 6]", "train.updates": 30, "devices": TWO_CORES}

    def test_every_line_of_the_metrics_has_it(self):
        run = self.train({**self.SETTINGS, "train.loss_scale": 1024, "train.loss_scale_window": 10})
        scales = [line["loss_scale"] for line in run.updates]
        self.assertEqual(scales, [1024] * 11 + [2048] * 10 + [4096] * 9)
        self.assertEqual(run.summary["skipped_updates"], 0)
        self.assertNotIn("loss_scale", self.train({**self.SETTINGS, "train.precision": "bf16"}, "other").updates[0])

    def test_overflows_are_not_an_alarm(self):
        run = self.train({**self.SETTINGS, "train.loss_scale": 2**24})
        skipped = [line for line in run.updates if line["skipped"]]
        self.assertGreater(len(skipped), 0)
        self.assertFalse(run.updates[-1]["skipped"])
        self.assertLess(run.updates[-1]["loss_scale"], 2**24)
        self.assertNotIn("skipped by all stages", run.process.stdout)
        self.assertIn("overflows at a loss scale of 16777216", (run.folder / "log.txt").read_text())
