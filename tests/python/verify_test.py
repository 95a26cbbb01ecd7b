"""`twobw verify`: the pipeline equals the serial oracle bit for bit, under every schedule."""
import unittest

from support import TestCase, twobw, words


class VerifyTest(TestCase):
    def equal(self, settings):
        process = twobw("verify", *words(settings), cwd=self.folder)
        self.assertEqual(process.returncode, 0, process.stdout + process.stderr)
        self.assertEqual(process.stderr, "")
        self.assertIn(f"verify {settings['pipeline.schedule']}", process.stdout)
        self.assertIn("equal to the serial oracle, bit for bit", process.stdout)
        self.assertEqual(list(self.folder.iterdir()), [], "verify leaves nothing behind")
        return process.stdout

    def test_every_schedule(self):
        for schedule in ("sequential", "gpipe", "flush", "2bw", "stash"):
            with self.subTest(schedule=schedule):
                self.equal({"pipeline.schedule": schedule})

    def test_every_schedule_on_three_stages(self):
        for schedule in ("sequential", "gpipe", "flush", "2bw", "stash"):
            with self.subTest(schedule=schedule):
                self.equal({
                    "pipeline.schedule": schedule,
                    "pipeline.stages": 3,
                    "pipeline.extra": 1,
                    "pipeline.recompute": "[1]",
                    "optimizer.name": "sgd",
                })

    def test_replicas(self):
        for schedule in ("flush", "2bw"):
            with self.subTest(schedule=schedule):
                output = self.equal({"pipeline.schedule": schedule, "pipeline.replicas": 2, "model.dropout": 0.1})
                self.assertIn("w=2 replicas of d=2 stages", output)
                self.assertIn("weights of every replica", output)
        process = twobw("verify", "--against", "flush", "pipeline.replicas=2", "pipeline.sync_updates=0")
        self.assertEqual(process.returncode, 1, process.stdout + process.stderr)
        self.assertIn("DIFFERENT from the serial oracle, first at update 1: loss", process.stdout)


if __name__ == "__main__":
    unittest.main()
