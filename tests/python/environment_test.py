"""The state in which a program is started: closed descriptors, a full device as output, small limits. Each ends in a
run as any other, or in one sentence with the system's reason."""
import os
import resource
import signal
import subprocess
import unittest

from support import FULL, TINY, Run, TestCase, program, twobw, words

BINARY = program("TWOBW_BINARY", "twobw")
NO_SPACE = "twobw: standard output cannot be written: No space left on device\n"
NOBODY = 65534


def shell(line, *arguments, **options):
    """Runs `line`, in which "$@" is the program with these arguments."""
    return subprocess.run(["bash", "-c", line, "bash", BINARY, *map(str, arguments)], capture_output=True, text=True,
                          timeout=120, **options)


def limited(kind, size):
    return lambda: resource.setrlimit(kind, (size, size))


class DescriptorsTest(TestCase):
    def test_closed_standard_descriptors(self):
        """No file of a run gets their numbers, in either program."""
        for name in ("", "-engine"):
            run = self.folder / f"run{name}"
            settings = words({**TINY, "run_dir": run})
            process = subprocess.run(["bash", "-c", '"$@" <&- >&- 2>&-', "bash", BINARY + name, "train", *settings])
            self.assertEqual(process.returncode, 0)
            self.assertEqual(len(Run(run).updates), TINY["train.updates"])  # every line is JSON

    def test_output_that_nobody_reads(self):
        process = shell('"$@" | head -1; exit ${PIPESTATUS[0]}', "schedule", "2bw", "--list", "--updates", 5000)
        self.assertEqual((process.returncode, process.stdout, process.stderr), (128 + signal.SIGPIPE, "stage 0\n", ""))


class FullDeviceTest(TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.full = open("/dev/full", "w")
        cls.addClassCleanup(cls.full.close)

    def assert_reported(self, *arguments):
        process = subprocess.run([BINARY, *map(str, arguments)], stdout=self.full, stderr=subprocess.PIPE, text=True,
                                 timeout=120)
        self.assertEqual((process.returncode, process.stderr), (1, NO_SPACE), arguments)

    def test_every_command(self):
        """`train` ends with its run saved: its lines are worth less."""
        run, tokens, text = self.folder / "run", self.folder / "tokens", self.folder / "text.txt"
        text.write_text("a line of text\n" * 40)
        tiny = words({**TINY, "model.vocab": 256, "data.train": text, "data.validation": text})
        settings = [*tiny, f"run_dir={run}"]
        self.assert_reported("train", *settings, "checkpoint.every_updates=3")
        self.assertEqual(Run(run).summary["updates"], TINY["train.updates"])
        for command in (
            ["--help"],
            ["plan", *tiny],
            ["schedule", "2bw", "--list", "--updates", 500],  # more than a buffer
            ["tokenizer", "train", "--out", tokens, "--vocab", 260, text],
            ["tokenizer", "encode", tokens, text],
            ["prepare", text, "--tokenizer", "bytes", "--out", self.folder / "data"],
            ["inspect", self.folder / "data-train.idx"],
            ["verify", *tiny, "train.updates=2"],
            ["eval", run],
        ) + ((
            ["--version"],
            ["plan", "--help"],
            ["topology"],
            ["schedule", "2bw"],
            ["schedule", "2bw", "--check"],
            ["simulate", "2bw"],
            ["batches", *settings, "--updates", 1, "--out", self.folder / "batches.safetensors"],
            ["checkpoint", "list", run],
            ["checkpoint", "verify", run],
            ["generate", run, "--length", 4],
            ["export", run, self.folder / "exported"],
            ["compare", *tiny, "pipeline.schedule=2bw", f"run_dir={self.folder / 'compare'}", "--updates", 2, "--seeds", 1],
            ["profile", *tiny, "--output", self.folder / "profile.json"],
        ) if FULL else ()):
            with self.subTest(command=command):
                self.assert_reported(*command)


class LimitsTest(TestCase):
    def refused(self, naming, *arguments, **options):
        process = twobw(*arguments, cwd=self.folder, **options)
        self.assertEqual((process.returncode, process.stdout), (2, ""), process.stderr)
        self.assertRegex(process.stderr, r"\Atwobw: [^\n]+\n\Z")
        for text in naming:
            self.assertIn(text, process.stderr)

    def test_a_small_stack(self):
        limit = limited(resource.RLIMIT_STACK, 256 << 10)
        self.refused(["the stack is 256 KiB", "at least 1024 KiB", "ulimit -s"], "verify", preexec_fn=limit)

    def test_the_smallest_stack(self):
        process = twobw("verify", *words(TINY), preexec_fn=limited(resource.RLIMIT_STACK, 1 << 20))
        self.assertEqual(process.returncode, 0, process.stderr)

    @unittest.skipUnless(os.getuid() == 0, "another user is needed, who has no processes")
    def test_no_threads(self):
        """Also where one thread of two can be started, which would wait for the other."""
        self.folder.chmod(0o777)

        def few(processes):
            def become():
                os.setgroups([])
                resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))
                os.setuid(NOBODY)
            return become

        for processes in (1, 2):
            with self.subTest(processes=processes):
                process = twobw("topology", cwd=self.folder, preexec_fn=few(processes))
                self.assertEqual((process.returncode, process.stdout), (2, ""), process.stderr)
                self.assertEqual(process.stderr, "twobw: a thread cannot be started: Resource temporarily unavailable; "
                                                 f"the limit on processes is {processes} (ulimit -u)\n")

    def test_a_name_that_is_too_long(self):
        name = "x" * 256
        self.refused(["run_dir", name, "File name too long"], "train", *words(TINY), f"run_dir={name}")
        self.refused([name, "File name too long"], "checkpoint", "show", name)

    def test_an_endless_configuration(self):
        for arguments in (("plan", "/dev/zero"), ("plan", "--cluster", "/dev/zero")):
            self.refused(["'/dev/zero'", "more than 16777216 bytes"], *arguments)

    def test_a_configuration_from_a_pipe(self):
        for line in ('echo "train: {updates: 0}" | "$@" /dev/stdin', '"$@" <(echo "train: {updates: 0}")'):
            process = shell(line, "plan")
            self.assertEqual(process.returncode, 2)
            self.assertIn("train.updates is 0", process.stderr)
