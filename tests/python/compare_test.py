"""`twobw compare` from outside: two schedules, several seeds, one answer."""
import json

from support import TINY, Run, TestCase, twobw, words

SETTINGS = {**TINY, "pipeline.schedule": "2bw", "pipeline.stages": 2}


class CompareTest(TestCase):
    def compare(self, *options, **changes):
        settings = {**SETTINGS, "run_dir": self.folder / "run", **changes}
        process = twobw("compare", *words(settings), *options)
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertEqual(process.stderr, "")
        return process.stdout

    def test_what_it_prints_and_leaves(self):
        output = self.compare("--updates", 20, "--seeds", 2, **{"train.seed": 5, "train.eval_every": 5})
        folder = self.folder / "run"
        runs = [(schedule, seed) for seed in (5, 6) for schedule in ("flush", "2bw")]
        names = [f"{schedule}-seed{seed}" for schedule, seed in runs]
        self.assertEqual({path.name for path in folder.iterdir()}, {*names, "compare.json"})

        compared = json.loads((folder / "compare.json").read_text())
        self.assertEqual(compared["updates"], 20)
        self.assertEqual(compared["tokens_per_update"], 2 * 4 * 16)
        self.assertEqual([(run["schedule"], run["seed"]) for run in compared["runs"]], runs)
        for name, numbers in zip(names, compared["runs"]):
            run = Run(folder / name)
            self.assertEqual([(point["update"], point["validation_loss"]) for point in numbers["curve"]],
                             [(line["update"], line["validation_loss"]) for line in run.validations])
            times = {line["update"]: line["time"] for line in run.updates}
            self.assertEqual([point["seconds"] for point in numbers["curve"]], [times[at] for at in (5, 10, 15, 20)])
            self.assertEqual(numbers["tokens_per_s"], run.summary["tokens_per_s"])
            self.assertEqual(numbers["seconds"], run.summary["seconds"])
            self.assertEqual(run.summary["schedule"], numbers["schedule"])
        # Both schedules begin with the same weights and the same batch.
        first = [Run(folder / name).losses[0] for name in names]
        self.assertEqual((first[0], first[2]), (first[1], first[3]))
        self.assertNotEqual(first[0], first[2])

        self.assertRegex(output, r"run 4 of 4: 2bw, seed 6\n")
        losses = [[run["curve"][-1]["validation_loss"] for run in compared["runs"] if run["schedule"] == schedule]
                  for schedule in ("flush", "2bw")]
        for schedule, (one, other) in zip(("flush", "2bw"), losses):
            mean, error = (one + other) / 2, abs(one - other) / 2
            self.assertRegex(output, rf"(?m)^{schedule} +{mean:.4f} \+- {error:.4f} +\S+ +[\d.]+$")
        self.assertRegex(output, r"(?m)^2bw - flush: [+-]\d\.\d{4} \+- \d\.\d{4} \([+-]\d\.\d\d \+- \d\.\d\d %\)$")
        target = max(sum(pair) / 2 for pair in losses)
        self.assertRegex(output, rf"(?m)^to {target:.4f} +updates +tokens +seconds$")
        self.assertRegex(output, r"(?m)^what to take: (2bw|flush), .* two standard errors \(\d\.\d{4}\)\.$")

    def test_2bw_as_configured(self):
        changes = {"pipeline.predict": "false", "pipeline.sync_updates": 2}
        output = self.compare("--updates", 6, "--seeds", 1, **changes)
        self.assertIn("flush and 2bw: 2 stages", output)
        first = [Run(self.folder / "run" / name).losses for name in ("flush-seed0", "2bw-seed0")]
        self.assertEqual(first[0][:3], first[1][:3])
        self.assertNotEqual(first[0][4:], first[1][4:])

    def test_what_it_refuses(self):
        for changes, options, naming in (
            ({"pipeline.stages": 1}, (), "pipeline.stages is 1"),
            ({"pipeline.schedule": "flush"}, (), "pipeline.schedule is flush"),
            ({"pipeline.sync_updates": 5}, (), "only synchronous updates"),
            ({}, ("--updates", 1), "at least 2 updates"),
            ({"pipeline.microbatches": 1}, (), "m = 1 is too small for 2bw"),
        ):
            with self.subTest(naming):
                process = twobw("compare", *words({**SETTINGS, "run_dir": "run", **changes}), *options,
                                cwd=self.folder)
                self.assertEqual(process.returncode, 2, process.stderr)
                self.assertEqual(process.stdout, "")
                self.assertRegex(process.stderr, r"\Atwobw: [^\n]+\n\Z")
                self.assertIn(naming, process.stderr)
                self.assertEqual(list(self.folder.iterdir()), [])
