"""The Python package: one wheel of the programs that are built, installed into an empty virtual environment."""
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import tarfile
import sys
import tempfile
import time
import unittest
import zipfile

import support

BUILD = pathlib.Path(support.program("TWOBW_BINARY", "twobw")).parent
TINY = ["model.layers=2", "model.width=32", "model.context=16", "pipeline.stages=2"]
MOST_BYTES = 40e6
MOST_SECONDS = 5


def build_wheel(source, folder, *options):
    command = [sys.executable, "-m", "pip", "wheel", source, "--no-deps", "--no-build-isolation", "--quiet",
               "--wheel-dir", folder, *options]
    subprocess.run(list(map(str, command)), check=True, timeout=1800)
    (wheel,) = pathlib.Path(folder).glob("*.whl")
    return wheel


def names_in(wheel):
    return set(zipfile.ZipFile(wheel).namelist())


class Environment:
    """A virtual environment without packages."""

    def __init__(self, folder):
        self.bin = folder / "bin"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        # The pip of this environment, run by the other one's Python, as `pip --python` does. It keeps compiled modules
        # where the programs of the environment do (run.py has another place for its own).
        pip = importlib.util.find_spec("pip").submodule_search_locations[0]
        self.pip = ["env", "-u", "PYTHONPYCACHEPREFIX", str(self.bin / "python"), pip, "--quiet"]

    def run(self, program, *arguments, torch=False, **options):
        """Runs a program of the environment; `torch` lets it find the project's own packages."""
        variables = {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": "/nonexistent", "CUDA_VISIBLE_DEVICES": "",
                     "OMP_WAIT_POLICY": "passive"}
        if torch:
            variables["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path.endswith("-packages"))
        command = [str(self.bin / program), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, env=variables, **options)


@unittest.skipUnless(shutil.which("cmake"), "no cmake")
class PackageTest(support.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            importlib.metadata.version("scikit-build-core")
        except importlib.metadata.PackageNotFoundError:
            raise unittest.SkipTest("scikit-build-core is not installed") from None
        cls.shared = pathlib.Path(tempfile.mkdtemp(prefix="twobw_package_"))
        cls.addClassCleanup(shutil.rmtree, cls.shared)
        cls.wheel = build_wheel(support.ROOT, cls.shared / "wheels", "-C", "cmake.source-dir=python", "-C",
                                f"cmake.define.TWOBW_BUILDS={BUILD}", "-C", f"build-dir={cls.shared}/build")
        cls.environment = Environment(cls.shared / "environment")
        cls.files = set(cls.environment.bin.parent.rglob("*"))
        subprocess.run([*cls.environment.pip, "install", "--no-deps", str(cls.wheel)], check=True)
        # A run of Python, runs/tiny, which several tests and the examples of docstrings look at.
        script = f'import twobw; twobw.train(*{TINY!r}, "train.updates=4", "train.eval_every=2", "run_dir=runs/tiny").result()'
        cls.environment.run("python", "-c", script, torch=True, cwd=cls.shared)

    @classmethod
    def tearDownClass(cls):
        subprocess.run([*cls.environment.pip, "uninstall", "--yes", "twobw"], check=True)
        left = set(cls.environment.bin.parent.rglob("*")) - cls.files
        assert not left, f"pip uninstall leaves {left}"

    def python(self, text, **options):
        """What this program of Python prints."""
        process = self.environment.run("python", "-c", text, **{"cwd": self.folder, **options})
        self.assertEqual(process.returncode, 0, process.stderr)
        return process.stdout

    def twobw(self, *arguments, **options):
        return self.environment.run("twobw", *arguments, cwd=self.folder, **options)

    def test_wheel_has_programs_and_right_tag(self):
        # The version of pyproject.toml is that of the programs.
        version = re.search(r"project\(twobw VERSION ([0-9.]+)", (support.ROOT / "CMakeLists.txt").read_text())[1]
        self.assertEqual(self.wheel.name, f"twobw-{version}-py3-none-linux_{platform.machine()}.whl")
        self.assertLess(self.wheel.stat().st_size, MOST_BYTES)
        names = names_in(self.wheel)
        self.assertIn("twobw/bin/twobw", names)
        self.assertTrue(names & {"twobw/bin/twobw-engine", "twobw/bin/twobw-engine-cuda"}, names)
        self.assertIn("twobw/py.typed", names)
        self.assertEqual("twobw/bin/twobw_sentencepiece.so" in names, (BUILD / "twobw_sentencepiece.so").exists())

    def test_programs_find_torch_beside_the_package(self):
        (package,) = self.environment.bin.parent.glob("lib/python*/site-packages/twobw")
        for program in package.glob("bin/twobw-engine*[!h]"):
            listed = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
            paths = re.search(r"R(?:UN)?PATH.*\[(.*)\]", listed)[1].split(":")
            self.assertIn("$ORIGIN/../../torch/lib", paths)
            self.assertEqual([path for path in paths if not path.startswith("$ORIGIN")], [])

    def test_extra_is_the_pinned_torch(self):
        pin = re.search(r"^torch==.*$", (support.ROOT / "requirements.txt").read_text(), re.MULTILINE)[0]
        text = (support.ROOT / "pyproject.toml").read_text()
        self.assertIn(f'train = ["{pin}"]', text)
        self.assertIn(f'"{pin}"]\nbuild-backend', text)

    def test_commands_work_without_torch(self):
        begin = time.monotonic()
        process = self.twobw("plan", "model.layers=2", "--json")
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertTrue(json.loads(process.stdout)["plan"]["fits"])
        printed = self.python("import sys, twobw; print(twobw.schedule('2bw')); print('torch' in sys.modules)")
        self.assertIn("all properties hold", printed)
        self.assertIn("False", printed)
        self.assertLess(time.monotonic() - begin, MOST_SECONDS)

    def test_training_without_torch_is_refused(self):
        process = self.twobw("train")
        self.assertEqual(process.returncode, 2)
        self.assertRegex(process.stderr, r"^twobw: training needs .* torch, .*; run `pip install 'twobw\[train\]'`\n$")

    def test_training_with_another_torch_is_refused(self):
        other = self.folder / "other" / "torch"
        other.mkdir(parents=True)
        (other / "version.py").write_text("__version__ = '2.10.0+cpu'\n")
        (other / "__init__.py").write_text("raise ImportError('must not be imported')")
        process = self.environment.run("python", "-c", f"""
import sys, twobw
sys.path.append({str(other.parent)!r})
try:
    twobw.train()
except twobw.InputError as error:
    print(error)
""")
        self.assertEqual(process.stderr, "")
        self.assertRegex(process.stdout, r"^torch 2\.10\.0\+cpu is installed, but twobw-engine was built with torch \S+; .*\n$")

    def test_figures_are_those_of_the_program(self):
        script = f"""
import dataclasses, json, twobw
results = (
    twobw.simulate("flush", stages=3, microbatches=4, forward=["1ms", "2ms", "1ms"]),
    twobw.schedule("2bw", stages=3, updates=2),
    twobw.verify("pipeline.stages=2", {{"pipeline.split": [6, 6]}}),
    twobw.plan("model.layers=2", stages=1),
    twobw.plan("model.layers=2", "model.width=65536", stages=1),
    twobw.compare(*{TINY!r}, updates=4, seeds=1),
)
print(json.dumps([[dataclasses.asdict(result), result.json] for result in results]))
print(json.dumps([str(result) for result in results]))
"""
        same = [
            ["simulate", "flush", "--stages=3", "--microbatches=4", "--forward=1ms,2ms,1ms"],
            ["schedule", "2bw", "--stages=3", "--updates=2", "--list"],
            ["verify", "pipeline.stages=2", "pipeline.split=[6,6]"],
        ]
        results, sentences = map(json.loads, self.python(script, torch=True).splitlines())
        self.assertIsNone(results[4][1]["plan"])
        for sentence in sentences:
            self.assertRegex(sentence, r"\A\S.+\S\Z")
        for shown, printed in results:
            self.assert_shown(shown, printed, "")
        for (_, printed), command in zip(results, same):  # the others measure seconds
            own = json.loads(self.twobw(*command, "--json", torch=True).stdout)
            own.pop("seconds", None)
            printed.pop("seconds", None)
            self.assertEqual(own, printed)

    def test_configuration_and_run_have_the_figures_of_the_program(self):
        config, *shown = json.loads(self.python("""
import dataclasses, json, twobw
run = twobw.load_run("runs/tiny")
print(json.dumps([run.config.to_dict(), *map(dataclasses.asdict, [run.summary, *run.records])]))
""", cwd=self.shared))
        folder = self.shared / "runs/tiny"
        self.assertEqual(config, json.loads(self.twobw("config", folder / "config.yaml", "--json").stdout))
        printed = [json.loads((folder / "summary.json").read_text())]
        printed += [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual(len([record for record in printed if "validation_loss" in record]), 3)
        self.assertEqual(len(shown), len(printed))
        for one, other in zip(shown, printed):
            self.assert_shown(one, other, "")

    def assert_shown(self, shown, printed, where):
        """Every figure of a dataclass is the program's; but for `events`, which `simulate --trace` wrote."""
        if isinstance(shown, dict):
            for key, value in shown.items():
                name = {"two_bw_loss": "2bw_loss"}.get(key, key)
                if key in ("json", "events") or value in (None, [], "") and name not in printed:
                    continue
                self.assert_shown(value, printed[name], f"{where}.{key}")
        elif isinstance(shown, list):
            self.assertEqual(len(shown), len(printed), where)
            for index, (one, other) in enumerate(zip(shown, printed)):
                self.assert_shown(one, other, f"{where}[{index}]")
        else:
            self.assertEqual(shown, printed, where)

    def test_error_has_key_value_and_remedy(self):
        printed = self.python("""
import twobw
try:
    twobw.Config("model.layers=-3")
except twobw.InputError as error:
    print([error.key, error.value, error.remedy, str(error)])
config = twobw.Config()
try:
    config.pipeline.stages = "many"
except ValueError as error:
    print(error.key, config.pipeline.stages)
for wrong in (lambda: twobw.Config("model.layer=3"), lambda: twobw.simulate("flush", stages=4, forward=["1ms", "2ms"])):
    try:
        wrong()
    except twobw.InputError as error:
        print(error.key, error.value, error.remedy)
""")
        key, value, remedy, sentence = eval(printed.splitlines()[0])
        self.assertEqual((key, value), ("model.layers", "-3"))
        self.assertTrue(sentence.endswith(f"; {remedy}"), sentence)
        self.assertEqual(sentence, self.twobw("plan", "model.layers=-3").stderr.removeprefix("twobw: ").strip())
        self.assertEqual(printed.splitlines()[1:], [
            "pipeline.stages 2",
            "model.layer None did you mean 'model.layers'?",
            "--forward None allowed: one for all, or one per stage",
        ])

    def test_interrupt_leaves_a_checkpoint(self):
        script = f"""
import os, signal, threading, twobw
try:
    with twobw.train(*{TINY!r}, "train.updates=1000000", "run_dir=cut") as run:
        next(iter(run))
        threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT]).start()
        for record in run:
            pass
except KeyboardInterrupt:
    print(twobw.load_run("cut").summary.interrupted)
"""
        self.assertEqual(self.python(script, torch=True), "True\n")
        self.assertTrue(list((self.folder / "cut" / "checkpoints").iterdir()))
        self.assertEqual(self.twobw("checkpoint", "verify", "cut", torch=True).returncode, 0)

    def test_default_configuration_trains(self):
        text = support.ROOT / "docs/reference/python.md"
        process = self.twobw("train", support.ROOT / "configs/default.yaml", f"data.train={text}",
                             f"data.validation={text}", "train.updates=2", "train.eval_every=0", torch=True)
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertIn("saved in runs/default", process.stdout)

    @support.slow
    def test_notebook_shows_progress(self):
        printed = self.python(f"""
import sys, types, twobw
class Handle:
    def update(self, shown): print(shown)
display = types.ModuleType("IPython.display")
display.HTML, display.display = str, lambda shown, display_id: Handle()
sys.modules.update({{"ipykernel": types.ModuleType("ipykernel"), "IPython": types.ModuleType("IPython"), "IPython.display": display}})
sys.modules["IPython"].display = display
run = twobw.train(*{TINY!r}, "train.updates=2")
run._ipython_display_()
print(twobw.load_run(run.path)._repr_html_())
""", torch=True)
        self.assertIn('<progress value="2" max="2"></progress> update 2/2  loss ', printed)
        self.assertIn("<polyline", printed)

    def test_run_that_fails_raises_the_programs_sentence(self):
        printed = self.python("""
import twobw
try:
    twobw.train("pipeline.stages=4", "pipeline.microbatches=2")
except twobw.InputError as error:
    print(error)
""", torch=True)
        self.assertIn("pipeline.microbatches m = 2 is too small for 2bw", printed)

    def test_examples_of_all_docstrings_run(self):
        script = """
import dataclasses, doctest, importlib, pkgutil, twobw
missing, failed = [], 0
for module in [importlib.import_module("twobw." + m.name) for m in pkgutil.iter_modules(twobw.__path__) if m.name != "__main__"]:
    failed += doctest.testmod(module).failed
for name in twobw.__all__:
    thing = getattr(twobw, name)
    if ">>>" not in (thing.__doc__ or "") and not dataclasses.is_dataclass(thing):
        missing.append(name)
print(failed, missing)
"""
        printed = self.python(script, torch=True, cwd=self.shared)
        self.assertEqual(printed.splitlines()[-1], "0 []", printed)

    def test_tutorial_runs_without_torch(self):
        process = self.environment.run("python", support.ROOT / "docs/tutorials/notebook.py", cwd=self.folder)
        self.assertEqual(process.returncode, 0, process.stderr)
        for name, mark in [("plan", "<table>"), ("schedule", "<svg"), ("simulation", "<svg")]:
            self.assertIn(mark, (self.folder / f"{name}.html").read_text(), name)

    @support.slow
    def test_types_hold(self):
        process = subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", "--python-version", "3.10", "--cache-dir", BUILD / "mypy-cache",
             "--config-file", support.ROOT / "pyproject.toml", support.ROOT / "python/twobw"],
            capture_output=True, text=True)
        self.assertEqual(process.returncode, 0, process.stdout + process.stderr)

    def unpack_source_distribution(self):
        hook = "import sys; from scikit_build_core.build import build_sdist; build_sdist(sys.argv[1])"
        subprocess.run([sys.executable, "-c", hook, self.folder], cwd=support.ROOT, check=True, stdout=subprocess.DEVNULL)
        (archive,) = self.folder.glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(self.folder)
        return archive.with_name(archive.name.removesuffix(".tar.gz"))

    def test_source_distribution_is_complete(self):
        source = self.unpack_source_distribution()
        for name in ["pyproject.toml", "README.md", "LICENSE", "CMakeLists.txt", "requirements.txt"]:
            self.assertTrue((source / name).exists(), name)
        for folder in ["src", "cmake", "python/twobw"]:
            names = {path.relative_to(support.ROOT) for path in (support.ROOT / folder).rglob("*.*") if "__pycache__" not in path.parts}
            self.assertEqual(names - {path.relative_to(source) for path in source.rglob("*")}, set())

    @support.slow
    def test_source_distribution_builds_the_same_wheel(self):
        source = self.unpack_source_distribution()
        wheel = build_wheel(source, self.folder / "wheels", "-C", "cmake.define.TWOBW_CUDA=off")
        self.assertLess(wheel.stat().st_size, MOST_BYTES)
        named = {name.replace("-cuda", "") for name in names_in(self.wheel)}
        self.assertEqual(names_in(wheel), named)
        shown = subprocess.run([sys.executable, "-m", "auditwheel", "show", wheel], capture_output=True, text=True)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        foreign = set(re.findall(r"lib[\w.+-]+\.so[\w.]*", shown.stdout)) - {"libtorch_cpu.so", "libc10.so"}
        self.assertEqual({name for name in foreign if not re.match(r"lib(c|m|stdc\+\+|gcc_s|z)\.so", name)}, set(), shown.stdout)

    def test_package_is_thin(self):
        lines = sum(len(path.read_text().splitlines()) for path in (support.ROOT / "python").rglob("*.py"))
        self.assertLessEqual(lines, 1500)
