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


if __name__ == "__main__":
    unittest.main()
