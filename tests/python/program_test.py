"""Two programs that look like one: twobw, which starts at once, and twobw-engine beside it, which has LibTorch."""
import re
import shutil
import subprocess
import unittest

from support import TINY, Run, TestCase, program, twobw, words

GROUPS = {"Train": ["train", "compare", "verify"],
          "Plan": ["plan", "profile", "topology", "simulate", "schedule"],
          "Data": ["prepare", "tokenizer", "inspect", "batches"],
          "Models": ["eval", "generate", "export", "embed", "checkpoint"]}
COMMANDS = [command for commands in GROUPS.values() for command in commands]


class ProgramTest(TestCase):
    def call(self, path, *arguments):
        """As `twobw` does, but for a program of another name."""
        return subprocess.run([path, *arguments], capture_output=True, text=True, timeout=120)

    def test_only_the_engine_loads_libtorch(self):
        binary = program("TWOBW_BINARY", "twobw")
        for path, loads in ((binary, False), (binary + "-engine", True)):
            libraries = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
            self.assertEqual("libtorch" in libraries, loads, libraries)

    def test_one_help_for_both(self):
        process = twobw("--help")
        self.assertEqual(process.returncode, 0, process.stderr)
        for command in COMMANDS:
            self.assertRegex(process.stdout, rf"(?m)^  {command} +[A-Z]")  # what it does
            self.assertRegex(process.stdout, rf"(?m)^  twobw {command} .* {{2,}}[a-z]")  # an example
        engine = self.call(program("TWOBW_BINARY", "twobw") + "-engine", "--help")
        self.assertEqual(process.stdout, engine.stdout)

    def test_no_command_prints_the_grouped_help(self):
        process = twobw()
        self.assertEqual((process.returncode, process.stderr), (0, ""))
        self.assertEqual(process.stdout, twobw("--help").stdout)
        for group, commands in GROUPS.items():
            section = re.search(rf"(?ms)^{group}:\n(.*?)\n\n", process.stdout)[1]
            self.assertEqual(re.findall(r"(?m)^  (\w+) ", section), commands)

    def test_help_of_a_command_wherever_it_lies(self):
        for command, option in (("train", "--sample"), ("plan", "--cluster")):
            process = twobw(command, "--help")
            self.assertEqual(process.returncode, 0, process.stderr)
            self.assertIn(option, process.stdout)
            self.assertIn(f"  twobw {command} ", process.stdout)
            self.assertEqual(twobw("--help", command).stdout, process.stdout)

    def test_a_schedule_says_what_it_predicts(self):
        shape = ("2bw", "--stages", 2, "--microbatches", 3, "--updates", 3)
        output = twobw("schedule", *shape).stdout
        self.assertIn("under it the t of its weights W(t), ~ if P of its batch\n", output)
        self.assertIn(">1| writes W(1), ~1| predicts P(1), . idle\n", output)
        self.assertEqual(output.count("~2|"), 2)  # once a stage
        self.assertTrue(output.endswith("for the first 2 of a batch; the others run on true weights\n"), output)
        paper = twobw("schedule", *shape, "--no-predict").stdout
        self.assertIn("under it the t of its weights W(t)\n>1| writes W(1), . idle\n", paper)
        self.assertNotIn("~", paper)
        self.assertNotIn("predict", paper)
        replicas = twobw("schedule", *shape, "--replicas", 2).stdout
        self.assertIn("predicts from the first 1, 2 of 3 microbatches of the batch before", replicas)
        for more in ((), ("--no-predict",), ("--replicas", 2), ("--extra", 1)):
            checked = twobw("schedule", *shape, *more, "--check")
            self.assertEqual(checked.returncode, 0, checked.stdout)
            self.assertIn("\nok      predictions: ", checked.stdout)
        refused = twobw("schedule", "2bw", "--stages", 3, "--microbatches", 2)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("d+e = 3", refused.stderr)
        self.assertEqual(twobw("schedule", "2bw", "--stages", 3, "--microbatches", 2, "--no-predict").returncode, 0)

    def test_a_simulated_prediction_takes_its_time(self):
        shape = ("2bw", "--stages", 4, "--microbatches", 8, "--forward", "10ms", "--backward", "20ms")
        for more, update in (
            ((), 240),
            (("--prediction", "5ms"), 245),
            (("--prediction", "5ms", "--no-predict"), 240),
            (("--prediction", "5ms", "--step", "3ms", "--extra", 3), 248),
        ):
            output = twobw("simulate", *shape, *more).stdout
            self.assertIn(f"in the steady state: {update} ms an update", output)

    def test_without_the_engine(self):
        alone = shutil.copy(program("TWOBW_BINARY", "twobw"), self.folder)
        self.assertEqual(self.call(alone, "schedule", "2bw").returncode, 0)
        self.assertEqual(self.call(alone, "--version").returncode, 0)
        process = self.call(alone, "train", *words(TINY))
        self.assertEqual(process.returncode, 1)
        self.assertEqual(process.stdout, "")
        self.assertEqual(process.stderr, f"twobw: `twobw train` needs '{self.folder.resolve()}/twobw-engine', which cannot "
                                         "be started: No such file or directory\n")
        self.assertEqual(self.call(alone, "trian").returncode, 2)

    def test_through_a_link(self):
        link = self.folder / "pipeline"
        link.symlink_to(program("TWOBW_BINARY", "twobw"))
        settings = {**TINY, "train.updates": 1, "run_dir": self.folder / "run with spaces"}
        process = self.call(link, "train", *words(settings))
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertEqual(len(Run(self.folder / "run with spaces").updates), 1)


if __name__ == "__main__":
    unittest.main()
