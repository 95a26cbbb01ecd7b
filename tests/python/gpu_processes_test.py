"""One run in several processes on GPUs, over NCCL: the bits of the serial oracle and of one process, and `plan: auto`.

Several processes may share a GPU from NCCL 2.30 on, which NCCL_MULTI_RANK_GPU_ENABLE=1 asks for: so all of this runs on
one. Where NCCL is older and there are fewer GPUs than ranks the tests skip themselves.
"""
import ctypes
import importlib.util
import itertools
import os
import re
import signal

from processes import GRACE, TORCHRUN, ProcessesTest, has_checkpoint
from resume_test import exact_lines
from support import TINY, VISIBLE_GPUS, Run, program, twobw, words

SHARES = {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}
PREDICTED = {"pipeline.schedule": "2bw"}
PAPER = {"pipeline.schedule": "2bw", "pipeline.predict": "false"}
FLUSH = {"pipeline.schedule": "flush"}


def gpu_count():
    """Number of GPUs that CUDA shows to this process, by the driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    return count.value if driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 else 0


def nccl_version():
    """Of the library that the programs find: one in LD_LIBRARY_PATH, else that of torch's packages; 0: none."""
    names = ["libnccl.so.2"]
    try:
        package = importlib.util.find_spec("nvidia.nccl")
        names += [os.path.join(folder, "lib", "libnccl.so.2") for folder in package.submodule_search_locations]
    except (ModuleNotFoundError, AttributeError):
        pass  # torch has its own, or the system
    for name in names:
        try:
            version = ctypes.c_int(0)
            if ctypes.CDLL(name).ncclGetVersion(ctypes.byref(version)) == 0:
                return version.value
        except OSError:
            pass
    return 0


def missing(ranks):
    """The reason why this many ranks cannot be tested here, or an empty string."""
    gpus, version = gpu_count(), nccl_version()
    if gpus == 0:
        return "no GPU here"
    if version == 0:
        return "no NCCL here"
    if gpus < ranks and version < 23000:
        return f"{ranks} ranks on {gpus} GPU need NCCL 2.30; here it is {version}"
    return ""


def devices(workers):
    """As one process deals them out: a GPU each, else slices."""
    gpus = min(gpu_count(), workers)
    while workers % gpus:
        gpus -= 1
    each = workers // gpus
    return "[" + ", ".join(f"cuda:{gpu}" + (f"/{each}" if each > 1 else "") for gpu in range(gpus)) + "]"


def layout(stages, replicas=1):
    return {"pipeline.stages": stages, "pipeline.replicas": replicas, "devices": devices(stages * replicas)}


class GpuProcessesTest(ProcessesTest):
    alone = True  # all share the GPUs

    def setUp(self):
        super().setUp()
        hidden = os.environ.pop("CUDA_VISIBLE_DEVICES")
        self.addCleanup(os.environ.__setitem__, "CUDA_VISIBLE_DEVICES", hidden)
        if VISIBLE_GPUS is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = VISIBLE_GPUS

    def need(self, ranks):
        reason = missing(ranks)
        if reason:
            self.skipTest(reason)

    def run_on_gpus(self, size, *arguments, settings, within=240):
        job = self.job()
        launcher = [*TORCHRUN, "--standalone", "--nproc-per-node", size]
        job.start([*launcher, program("TWOBW_BINARY", "twobw"), *arguments, *words(settings)], SHARES)
        self.assertEqual(job.wait(within), [0], job.everything())
        job.assert_no_orphans()
        return job


class VerifyOnGpusTest(GpuProcessesTest):
    """What `verify` has without a file: tied embeddings, clipping, dropout and evaluations."""

    def equal(self, size, settings):
        self.need(size)
        output = self.run_on_gpus(size, "verify", settings=settings).output()
        self.assertEqual(output.count("equal to the serial oracle, bit for bit"), 1, output)

    def test_two_stages(self):
        for schedule in (PREDICTED, PAPER, FLUSH):
            with self.subTest(**schedule):
                self.need(2)
                self.equal(2, {**layout(2), **schedule})

    def test_two_replicas(self):
        for schedule in (PREDICTED, PAPER, FLUSH):
            with self.subTest(**schedule):
                self.need(2)
                self.equal(2, {**layout(1, 2), **schedule, "pipeline.sync_updates": 0})

    def test_two_processes_of_two_workers(self):
        self.need(2)
        self.equal(2, {**layout(2, 2), **PREDICTED, "pipeline.sync_updates": 0})
        self.equal(2, {**layout(4), **PAPER, "pipeline.microbatches": 8, "pipeline.recompute": "all"})

    def test_four_processes(self):
        for (stages, replicas), schedule in itertools.product(((4, 1), (2, 2)), (PREDICTED, PAPER, FLUSH)):
            with self.subTest(stages=stages, replicas=replicas, **schedule):
                self.need(4)
                self.equal(4, {**layout(stages, replicas), **schedule, "pipeline.microbatches": 8})

    def test_bfloat16(self):
        self.need(2)
        self.equal(2, {**layout(2, 1), **PREDICTED, "train.precision": "bf16", "model.width": 64})


class GpuRunsTest(GpuProcessesTest):
    SETTINGS = {**TINY, **PREDICTED, "model.dropout": 0.1, "train.updates": 20, "train.eval_every": 10,
                "train.deterministic": "true", "checkpoint.every_updates": 10, "network.heartbeat_timeout": 10}

    def assert_same(self, run, whole):
        self.assertGreaterEqual(len(run.losses), self.SETTINGS["train.updates"])
        self.assertEqual(exact_lines(run), exact_lines(whole))
        for path in (whole.folder / "model").iterdir():
            self.assertEqual((run.folder / "model" / path.name).read_bytes(), path.read_bytes(), path.name)
        newest = [one.folder / "checkpoints" / (one.folder / "checkpoints/latest").read_text().strip()
                  for one in (run, whole)]
        compared = twobw("checkpoint", "diff", *newest)
        self.assertEqual(compared.returncode, 0, compared.stdout + compared.stderr)


class TrainOnGpusTest(GpuRunsTest):
    def settings(self, name, **changes):
        return {**self.SETTINGS, **layout(2), "pipeline.split": "[6, 6]", "run_dir": self.folder / name, **changes}

    def train_alone(self, settings):
        process = twobw("train", *words(settings))
        self.assertEqual(process.returncode, 0, process.stdout + process.stderr)
        return Run(settings["run_dir"])

    def train_in(self, size, settings):
        self.run_on_gpus(size, "train", settings=settings)
        return Run(settings["run_dir"])

    def test_the_run_of_one_process(self):
        self.need(2)
        self.assert_same(self.train_in(2, self.settings("two")), self.train_alone(self.settings("one")))

    def test_replicas(self):
        self.need(2)
        changes = {**layout(1, 2), "pipeline.split": "[12]"}
        self.assert_same(self.train_in(2, self.settings("two", **changes)),
                         self.train_alone(self.settings("one", **changes)))

    def test_killed_and_resumed(self):
        """A killed rank ends all of them; the resumed run equals an uninterrupted one."""
        self.need(2)
        long = {"train.updates": 200, "train.eval_every": 100}
        whole = self.train_alone(self.settings("whole", **long))
        settings = self.settings("run", **long, resume="auto")
        job = self.start_ranks(2, "train", settings=settings, environment=SHARES)
        self.assertTrue(job.wait_for(lambda: has_checkpoint(settings["run_dir"], 20), within=120),
                        "the run was faster than the signal\n" + job.everything())
        job.signal(1, signal.SIGKILL)
        self.assertNotIn(0, job.wait(10 + GRACE), job.everything())
        job.assert_no_orphans()
        self.assert_same(self.train_in(2, settings), whole)


class PlanOnGpusTest(GpuRunsTest):
    """Process 0 measures its GPUs, all of them their links, and all get its plan."""

    def plan_settings(self, name, **changes):
        return {**self.SETTINGS, "plan": "auto", "run_dir": self.folder / name, **changes}

    @staticmethod
    def updates_in(folder):
        return sum("grad_norm" in line for line in Run(folder).lines)

    def assert_planned(self, output, size):
        self.assertRegex(output, r"measured over NCCL between processes of a host: \S+ [MG]bit/s each way while both "
                                 r"are full, \S+ [mu]s")
        self.assertRegex(output, rf"planned for {size} processes: .*; forecast \S+ tokens/s")
        for rank in range(size):
            self.assertRegex(output, rf"on cuda:\S+ of \S+ \(process {rank}\): layers ")

    def test_the_run_of_one_process_with_that_plan(self):
        """The plan that stands in the folder of the run, in one process: so all processes had the same."""
        self.need(2)
        settings = self.plan_settings("planned", devices=devices(2))
        output = self.run_on_gpus(2, "train", settings=settings).output()
        self.assert_planned(output, 2)
        run = Run(settings["run_dir"])
        self.assertGreater(run.summary["forecast"]["tokens_per_s"]["forecast"], 0)
        process = twobw("train", run.folder / "config.yaml", f"run_dir={self.folder / 'again'}")
        self.assertEqual(process.returncode, 0, process.stdout + process.stderr)
        self.assert_same(run, Run(self.folder / "again"))

    def test_two_workers_a_process(self):
        """Or one, if that is faster; the devices of each are its own."""
        self.need(2)
        settings = self.plan_settings("run", devices=devices(4))
        self.assert_planned(self.run_on_gpus(2, "train", settings=settings).output(), 2)
        self.assertEqual(self.updates_in(settings["run_dir"]), self.SETTINGS["train.updates"])

    def test_again_for_fewer_processes(self):
        """On what GPUs there are, which nobody names: in 16 bits they are taken unasked."""
        self.need(4)
        settings = self.plan_settings("run", **{"train.precision": "bf16", "model.width": 64})
        self.assert_planned(self.run_on_gpus(4, "train", settings=settings).output(), 4)
        again = {"plan": "auto", "resume": settings["run_dir"], "train.updates": 30}
        output = self.run_on_gpus(2, "train", settings=again).output()
        self.assert_planned(output, 2)
        self.assertRegex(output, r"resumed after update 20 from ")
        self.assertRegex(output, r"planned again for 2 processes: \d stages? x \d replicas?, where the checkpoint was "
                                 r"saved with \d x \d")
        self.assertEqual(self.updates_in(settings["run_dir"]), 30)


class TopologyOnGpusTest(GpuProcessesTest):
    def test_gpus_that_are_named(self):
        """Two each: the devices are the GPUs, and the links those between them."""
        self.need(2)
        cluster = self.folder / "cluster.yaml"
        job = self.run_on_gpus(2, "topology", "--output", cluster, settings={"devices": devices(4)})
        self.assertRegex(job.output(), r"(?m)^host +processes +GPUs +memory each +device$")
        self.assertRegex(job.output(), r"(?m)^4 devices on 1 host written to ")
        text = cluster.read_text()
        self.assertTrue(text.startswith("# Written by `twobw topology` in 2 processes on 1 host.\n"), text)
        self.assertRegex(text, r"(?m)^#   inside \S+, processes 0 and 1: .* each$")
        self.assertRegex(text, r'(?m)^    devices: "?4 x .')
        self.assertRegex(text, r"(?m)^    link: \{bandwidth: ")

    def test_single_precision(self):
        """As a run would compute there: on cores, unless each process has a GPU to itself."""
        self.need(1)
        output = self.run_ranks(2, "topology", settings={"train.precision": "fp32"}).output()
        cores = re.search(r"(?m)^    devices: \"?\d+ x CPU core", output)
        self.assertEqual(cores is None, gpu_count() >= 2, output)


class RefusalsOnGpusTest(GpuProcessesTest):
    def test_a_gpu_for_two_without_leave(self):
        """One sentence, before anything starts."""
        for plan in ("none", "auto"):
            with self.subTest(plan=plan):
                self.need(1)
                self.refused(plan)

    def refused(self, plan):
        settings = {**TINY, "pipeline.stages": 2, "devices": "[cuda:0, cuda:0]", "plan": plan,
                    "run_dir": self.folder / "run"}
        job = self.start_ranks(2, "train", settings=settings, environment={"NCCL_MULTI_RANK_GPU_ENABLE": "0"})
        first, second = job.wait(60)
        self.assertEqual(first, 2, job.everything())
        self.assertNotEqual(second, 0, job.everything())
        for rank in range(2):
            self.assertRegex(job.errors(rank), "processes 0 and 1 would share cuda:0 of .*NCCL")
        self.assertFalse((self.folder / "run").exists())
