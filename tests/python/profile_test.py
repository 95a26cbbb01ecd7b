"""twobw profile: its file, its output and its refusals."""
import json

from support import TINY, TestCase, twobw, words


class ProfileTest(TestCase):
    def profile(self, *arguments, settings=()):
        return twobw("profile", *words({**TINY, **dict(settings)}), "--rounds", 2, *arguments, cwd=self.folder)

    def test_the_file_holds_every_kind_at_every_size(self):
        process = self.profile("--sizes", "4,1,2,2", "--output", "here.json")
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertEqual(process.stderr, "")
        self.assertIn("written to here.json", process.stdout)
        profile = json.loads((self.folder / "here.json").read_text())
        self.assertEqual(profile["version"], 7)
        self.assertEqual(profile["model"]["width"], 32)
        self.assertRegex(profile["device"], r"^cpu: 1 core of .")
        self.assertGreater(profile["device_memory_bytes"], 2**20)
        kinds = {"embedding", "attention_in", "attention_out", "mlp_up", "mlp_activation", "mlp_down", "head"}
        self.assertEqual(set(profile["kinds"]), kinds)
        self.assertEqual(len(profile["layers"]), 12)
        for name, kind in profile["kinds"].items():
            self.assertIn(name, process.stdout)
            self.assertEqual([times["microbatch"] for times in kind["times"]], [1, 2, 4])
            for times in kind["times"]:
                for key in ("forward_seconds", "backward_seconds", "recomputed_backward_seconds"):
                    self.assertGreater(times[key]["median"], 0)
                    self.assertGreaterEqual(times[key]["spread"], 0)
        for key in ("step_seconds_per_parameter", "predict_seconds_per_parameter"):
            self.assertGreater(profile[key]["median"], 0)
            self.assertGreaterEqual(profile[key]["spread"], 0)
        for line in ("optimizer step", "prediction"):
            self.assertRegex(process.stdout, rf"\n{line}: \S+ ±\S+ ns a parameter\n")

    def test_no_prediction_is_measured_where_none_is_made(self):
        process = self.profile("--sizes", "1", settings={"pipeline.predict": "false"}.items())
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertNotIn("prediction", process.stdout)
        profile = json.loads((self.folder / "profile.json").read_text())
        self.assertEqual(profile["predict_seconds_per_parameter"]["median"], 0)

    def test_without_a_terminal_there_are_plain_lines(self):
        output = self.profile("--sizes", "1").stdout
        self.assertIn("round 2/2", output)
        self.assertNotIn("\r", output)
        self.assertNotIn("\033", output)

    def test_devices_do_not_depend_on_the_stages(self):
        process = self.profile("--sizes", "1", settings={"devices": "[cpu:0]", "pipeline.stages": 3}.items())
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertIn("on cpu:0\n", process.stdout)

    def refused(self, *arguments, naming, settings=()):
        process = self.profile(*arguments, settings=settings)
        self.assertEqual(process.returncode, 2, process.stdout)
        self.assertRegex(process.stderr, r"\Atwobw: [^\n]+\n\Z")
        for text in naming:
            self.assertIn(text, process.stderr)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_bad_sizes(self):
        for sizes in ("0", "1,,2"):
            self.refused("--sizes", sizes, naming=["--sizes", f"'{sizes}'", "whole numbers"])

    def test_an_output_that_cannot_be_written(self):
        self.refused("--output", "nowhere/profile.json", naming=["--output", "nowhere/profile.json"])
