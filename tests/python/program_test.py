"""Two programs that look like one, twobw without LibTorch and twobw-engine with it; and the JSON of all commands."""
import json
import re
import shutil
import subprocess

from support import TINY, Run, TestCase, program, twobw, words

GROUPS = {"Train": ["train", "compare", "verify"],
          "Plan": ["plan", "profile", "topology", "simulate", "schedule"],
          "Data": ["prepare", "tokenizer", "inspect", "batches"],
          "Models": ["eval", "generate", "export", "checkpoint", "embed"],
          "Setup": ["config", "doctor", "completion"]}
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
            self.assertRegex(process.stdout, rf"(?m)^  {command} +[A-Z]")  # its purpose
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

    def test_version(self):
        lines = twobw("--version").stdout.splitlines()
        self.assertRegex(lines[0], r"^twobw \d+\.\d+\.\d+ \(revision ([0-9a-f]{7,}(-dirty)?|unknown)\)$")
        self.assertEqual([line.split()[0] for line in lines[1:]], ["LibTorch", "CUDA", "NCCL"])

    def test_doctor(self):
        process = twobw("doctor", "--json")
        self.assertEqual(process.returncode, 0, process.stdout)
        checks = {check["name"]: check for check in json.loads(process.stdout)["checks"]}
        for name in ("cores", "GPUs", "LibTorch", "Gloo", "NCCL", "sentencepiece", "utf8proc", "zstd", "torchrun", "mpirun",
                     "srun", "locked memory", "shared memory", "open files", "stack"):
            self.assertEqual(checks[name]["verdict"] == "ok", checks[name]["remedy"] == "", checks[name])
        few = subprocess.run(["bash", "-c", f"ulimit -n 64; {program('TWOBW_BINARY', 'twobw')} doctor"],
                             capture_output=True, text=True, check=True).stdout
        self.assertRegex(few, r"\n  warn  open files +64\n +-> `ulimit -n 4096`")
        alone = shutil.copy(program("TWOBW_BINARY", "twobw"), self.folder)
        process = self.call(alone, "doctor")
        self.assertEqual(process.returncode, 1)
        self.assertIn("\n  FAIL  LibTorch       twobw-engine does not start: ", process.stdout)
        self.assertIn("\ntraining cannot work; ", process.stdout)

    def test_completion_in_bash(self):
        script = self.folder / "twobw.bash"
        script.write_text(twobw("completion", "bash").stdout)

        def complete(*line):
            typed = " ".join(f"'{word}'" for word in line)
            process = subprocess.run(["bash", "-c", f"source {script}; COMP_WORDS=(twobw {typed}); COMP_CWORD={len(line)}\n"
                                                    '_twobw 2> /dev/null; printf "%s\\n" "${COMPREPLY[@]}"'],
                                     capture_output=True, text=True, check=True)
            return process.stdout.split()

        self.assertEqual(complete(""), [*COMMANDS, "--help", "--version"])
        self.assertEqual(complete("ev"), ["eval"])
        self.assertEqual(complete("train", "--s"), ["--sample"])
        self.assertEqual(complete("train", "config.yaml", "pipeline.micro"), ["pipeline.microbatch=", "pipeline.microbatches="])
        self.assertEqual(complete("tokenizer", "tr"), ["train"])
        self.assertEqual(complete("tokenizer", "train", "--vo"), ["--vocab"])
        self.assertEqual(complete("schedule", "pipeline.st"), [])  # takes no keys

    def test_completion_in_zsh(self):
        script = twobw("completion", "zsh").stdout
        self.assertIn("compdef _twobw twobw", script)
        if shutil.which("zsh"):
            subprocess.run(["zsh", "-n"], input=script, text=True, check=True)

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


class JsonTest(TestCase):
    def call(self, *arguments, code=0):
        process = twobw(*arguments, "--json", cwd=self.folder)
        self.assertEqual(process.returncode, code, process.stderr)
        return json.loads(process.stdout)

    def test_schedule_and_topology(self):
        schedule = self.call("schedule", "2bw", "--stages", 2, "--list")
        self.assertTrue(schedule["ok"])
        self.assertEqual({finding["ok"] for finding in schedule["check"]}, {True})
        self.assertEqual((len(schedule["instructions"]), len(schedule["most_held"])), (2, 2))
        [node] = self.call("topology")["nodes"]
        self.assertIn("latency", json.dumps(node))

    def test_runs(self):
        settings = words({**TINY, "train.updates": 2, "optimizer.warmup": 0})
        verified = self.call("verify", *settings)
        self.assertEqual((verified["equal"], verified["updates"], len(verified["split"])), (True, 2, 2))
        self.assertEqual(self.call("profile", *settings, "--rounds", 1, "--sizes", 1)["layers"][0], "embedding")
        compared = self.call("compare", *settings, "pipeline.schedule=2bw", "pipeline.stages=2", "pipeline.predict=false",
                             "run_dir=runs", "checkpoint.every_updates=2", "--seeds", 1)
        self.assertEqual([run["schedule"] for run in compared["runs"]], ["flush", "2bw"])
        self.assertAlmostEqual(compared["loss_difference"]["mean"], compared["2bw_loss"]["mean"] - compared["flush_loss"]["mean"])
        self.assertIn("what to take: ", compared["advice"])
        [saved] = self.call("checkpoint", "list", "runs/2bw-seed0")
        self.assertEqual((saved["update"], self.call("checkpoint", "show", "runs/2bw-seed0")), (2, saved))
        self.assertEqual(self.call("checkpoint", "verify", "runs/2bw-seed0"),
                         [{"folder": saved["folder"], "good": True, "problems": []}])

    def test_token_files(self):
        (self.folder / "text").write_text("abc\n" * 40)
        twobw("prepare", "text", "--tokenizer", "bytes", "--out", "data", cwd=self.folder)
        inspected = self.call("inspect", "data-train", "--tokenizer", "bytes", "--samples", 1, "--length", 3)
        self.assertEqual(inspected["samples"][0]["text"], "abc")
        self.assertEqual(inspected["ids"], {"least": 10, "greatest": 99})
        self.assertEqual(self.call("tokenizer", "show", "bytes")["vocab"], 256)

    def test_errors(self):
        for arguments, key, value in (
                (("plan", "pipeline.stages=two"), "pipeline.stages", "two"),
                (("simulate", "--step", "-1"), "--step", "-1"),
                (("verify", "nowhere.yaml"), None, None),
                (("schedule", "--stagse", "2"), None, None)):
            error = self.call(*arguments, code=2)["error"]
            self.assertEqual((error["key"], error["value"]), (key, value), error)
            self.assertEqual(twobw(*arguments, cwd=self.folder).stderr, f"twobw: {error['message']}\n")
