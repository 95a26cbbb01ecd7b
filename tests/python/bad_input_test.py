"""Wrong input of every kind: one sentence on stderr, exit code 2, at once, and no files left."""
import json
import resource

from support import FULL, TINY, TestCase, twobw, words

SECONDS = 1.0  # of a core: other tests keep the cores busy


def spent_by_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class BadInputTest(TestCase):
    def tree(self):
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))

    def refused(self, *arguments, naming=()):
        """Runs the program in the test's folder; the sentence must contain all of `naming`."""
        before = self.tree()
        begin = spent_by_children()
        process = twobw(*arguments, cwd=self.folder)
        seconds = spent_by_children() - begin
        self.assertEqual(process.returncode, 2, process.stderr)
        self.assertEqual(process.stdout, "")
        self.assertRegex(process.stderr, r"\Atwobw: [^\n]+\n\Z")
        for internal in ("internal error", "Exception", "frame #", "terminate called"):
            self.assertNotIn(internal, process.stderr)
        for text in naming:
            self.assertIn(text, process.stderr)
        self.assertEqual(self.tree(), before)
        self.assertLess(seconds, SECONDS)

    def settings_refused(self, changes, naming, command="train"):
        self.refused(command, *words({**TINY, "run_dir": "run", **changes}), naming=naming)

    def test_settings(self):
        """One refusal of every kind; the ranges of all keys are tested in tests/core/base."""
        (self.folder / "texts").mkdir()
        (self.folder / "text").write_bytes(b"abc\xc8" * 40)
        (self.folder / "short").write_bytes(b"\x01" * 16)
        llama, bert = {"model.family": "llama"}, {"model.family": "bert"}
        one, two = {"pipeline.stages": 1}, {"pipeline.stages": 2}
        # Refused alike by every command; `config` needs no LibTorch.
        for changes, *naming in (
                ({"model.layers": "two"}, "model.layers", "'two'", "whole number"),
                ({**one, "pipeline.replicas": 2, "devices": "[cpu:0]"}, "devices", "2 replicas of 1 stages"),
                ({**two, "devices": "[cuda:0, cpu:0]"}, "devices", "not both")):
            with self.subTest(**changes):
                self.settings_refused(changes, naming, "config")
        two_bw = {"pipeline.schedule": "2bw", "pipeline.stages": 4, "pipeline.extra": 2, "pipeline.microbatches": 5}
        for changes, *naming in (
                (two_bw, "pipeline.microbatches", "m = 5", "d = 4", "e = 2", "with prediction", "d+e = 6",
                 "with pipeline.predict: false d-1+e = 5"),
                ({**two, "pipeline.split": "[50,50]"}, "pipeline.split", "covers 100", "must cover"),
                ({"model.layres": 2}, "model.layres", "model.layers"),
                ({**bert, "data.train": "text.txt"}, "model.vocab is 64", "masked_lm", "257"),
                ({"model.reset_documents": "true", "data.train": "text", "model.vocab": 256}, "data.train",
                 "text without documents", "prepare"),
                ({"data.train": "text"}, "model.vocab is 64", "data.train", "token 200", "201"),
                ({"data.train": "nowhere.txt"}, "data.train", "nowhere.txt", "No such file"),
                ({"data.train": "texts"}, "data.train", "texts", "not a regular file"),
                ({"data.train": "short"}, "data.train", "16 bytes", "17"),
                ({**one, "devices": "[cpu:4095]"}, "devices", "cpu:4095"),
                ({**one, "devices": "[cuda:99]"}, "devices", "cuda:99")) + ((
                # In tests/core/schedule/spec_test.cc, app/measure/split_test.cc and planning/architecture, too.
                ({**two_bw, "pipeline.predict": "false", "pipeline.microbatches": 4}, "m = 4", "d-1+e = 5"),
                ({"pipeline.stages": 99}, "pipeline.stages is 99", "layers", "no layer", "at most"),
                ({**llama, "model.dropout": 0.1}, "model.dropout is 0.1", "llama"),
                ({**bert, "model.head": "causal_lm"}, "model.head is causal_lm", "masked_lm"),
                ({**bert, "model.reset_documents": "true"}, "model.reset_documents", "bert")) if FULL else ()):
            with self.subTest(**changes):
                self.settings_refused(changes, naming)

    def test_other_commands_refuse_alike(self):
        for command in ("verify", "plan"):
            self.settings_refused({"model.layres": 2}, ["model.layers"], command)
            self.settings_refused({"model.family": "llama", "model.dropout": 0.1}, ["model.dropout is 0.1"], command)
        self.settings_refused({"data.train": "nowhere.txt"}, ["nowhere.txt"], "verify")
        for command in ("schedule", "simulate"):
            for option in ("--stages", "--updates"):
                self.refused(command, "flush", option, 2 * 10**9, naming=["2000000000", "at most"])

    def test_a_schedule_beside_that_cannot_run(self):
        settings = words({**TINY, "run_dir": "run", "pipeline.stages": 3, "pipeline.schedule": "flush",
                          "pipeline.microbatches": 1})
        self.refused("train", *settings, "--beside", "1f1b", naming=["'1f1b'", "sequential, gpipe, flush, 2bw, stash"])
        self.refused("train", *settings, "--beside", "2bw", naming=["m = 1 is too small", "d+e = 3"])

    def test_configuration_files(self):
        for name, text, *naming in (("a.yaml", "model:\n  layers: [1, 2\n", "a.yaml"),
                                    ("a.yaml", "model:\n  layers: 2\n  tied: 3\n", "model.tied", "a.yaml:3"),
                                    ("a.yaml", "model:\n  layer: 2\n", "model.layer", "a.yaml:2", "model.layers")):
            (self.folder / name).write_text(text)
            self.refused("config", name, naming=naming)
        self.refused("train", "nowhere.yaml", naming=["nowhere.yaml", "No such file"])
        (self.folder / "b.yaml").write_text("train: {updates: 1}\n")
        self.refused("train", "a.yaml", "b.yaml", naming=["a.yaml", "b.yaml"])

    # Plans

    CLUSTER = "nodes: [{devices: 8 x V100-16GB, link: {bandwidth: 150GB/s, latency: 5us}}]\n"

    def plan_refused(self, *arguments, naming, cluster=CLUSTER):
        (self.folder / "c.yaml").write_text(cluster)
        self.refused("plan", *words(TINY), "--cluster", "c.yaml", *arguments, naming=naming)

    def test_clusters(self):
        for cluster, *naming in (
                ("", "c.yaml", "nothing", "nodes"),
                ("nodes: []", "nodes", "c.yaml:1", "at least one"),
                ("nodes: [{name: a}]", "nodes[0].devices", "missing", "c.yaml"),
                ("nodes: [{devices: V100}]", "nodes[0].devices", "'V100'", "V100-16GB"),
                (self.CLUSTER.replace("150GB/s", "0"), "nodes[0].link.bandwidth is 0", "c.yaml:1", "above 0"),
                ("devices: {x: {memory: 1GB}}\nnodes: [{devices: x}]\n", "'x'", "tflops", "profile")):
            with self.subTest(cluster=cluster):
                self.plan_refused(cluster=cluster, naming=naming)
        self.refused("plan", "--cluster", "nowhere.yaml", naming=["nowhere.yaml", "No such file"])

    def profile(self, **changes):
        """Of a model of width 32."""
        seconds = {"median": 1e-3, "spread": 0}
        times = {"microbatch": 1, "forward_seconds": seconds, "backward_seconds": seconds,
                 "recomputed_backward_seconds": seconds, "saved_bytes": 1, "kept_output_bytes": 1,
                 "output_bytes": 1, "working_bytes": 1}
        kinds = ["embedding", "attention_in", "attention_out", "mlp_up", "mlp_activation", "mlp_down", "head"]
        model = {"family": "gpt", "layers": 1, "width": 32, "heads": 4, "vocab": 64, "context": 16, "tied": True,
                 "dropout": 0, "head": "auto", "num_labels": 2, "max_positions": 0, "kv_heads": 0, "head_size": 0, "hidden": 0,
                 "token_types": 2, "next_sentence": False, "padding": True, "reset_documents": False,
                 "qkv_bias": False, "qk_norm": False}
        profile = {"version": 7, "device": "a core", "device_memory_bytes": 1, "program": "0", "libtorch": "0",
                   "created": "today", "model": model, "precision": "fp32", "optimizer": "adamw", "layers": kinds,
                   "kinds": {kind: {"parameters": 1, "tied_parameters": 0, "times": [times]} for kind in kinds},
                   "token_bytes_per_sequence": 1, "step_seconds_per_parameter": seconds,
                   "predict_seconds_per_parameter": seconds, "links": {}}
        (self.folder / "p.json").write_text(json.dumps({**profile, **changes}))
        return "p.json"

    def test_profile_of_another_model_or_version(self):
        self.plan_refused("model.width=64", "--profile", self.profile(), naming=["model.width was 32", "has 64"])
        self.plan_refused("--profile", self.profile(version=6), naming=["p.json", "version 6", "version 7"])
        self.plan_refused("--profile", self.profile(optimizer="sgd"), naming=["optimizer.name was sgd"])

    def test_profile_that_is_none(self):
        self.plan_refused("--profile", "nowhere.json", naming=["nowhere.json", "No such file"])
        (self.folder / "p.json").write_text("{")
        self.plan_refused("--profile", "p.json", naming=["p.json", "not JSON"])
        (self.folder / "p.json").write_text('{"version": 7}')
        self.plan_refused("--profile", "p.json", naming=["p.json", "lacks the field device"])

    def test_contradictory_plans(self):
        two_bw = ("--schedule", "2bw", "--stages", "4", "--microbatches", "2", "--batch", "64")
        for arguments, *naming in ((("--stages", "9"), "9", "8"),
                                   (("--stages", "4", "--replicas", "3"), "pipeline.stages is 4", "3 replicas", "8"),
                                   (two_bw, "microbatches", "m = 2", "d+e = 4"),
                                   (("--microbatch", "9", "--batch", "8"), "9", "8"),
                                   (("--schedule", "3bw"), "3bw", "2bw"),
                                   (("--margin", "1.5"), "margin", "1.5"),
                                   (("--profile", self.profile(), "--microbatch", "7"), "7", "1")):
            with self.subTest(arguments=arguments):
                self.plan_refused(*arguments, naming=naming)

    # The command line and the run directory

    def test_files_that_cannot_be_written(self):
        for output, why in (("nowhere/c.yaml", "No such file"), (".", "Is a directory")):
            self.refused("topology", "--output", output, naming=["--output", f"'{output}'", why])
        self.refused("train", *words({**TINY, "run_dir": "run"}), "--trace", "nowhere/trace.json",
                     naming=["--trace", "'nowhere/trace.json'", "No such file"])

    def test_the_command_line(self):
        self.refused("trian", naming=["trian", "train"])
        self.refused("train", "--fast", naming=["--fast"])
        self.refused("generate", "run", "--length", "0", naming=["--length"])
        self.refused("generate", "run", "--temperature", "-1", naming=["--temperature"])

    def test_run_dir_that_is_a_file(self):
        (self.folder / "run").write_text("precious")
        self.refused("train", *words({**TINY, "run_dir": "run"}), naming=["run_dir", "'run'", "file"])
        self.refused("train", *words({**TINY, "run_dir": "run/below"}), naming=["run_dir", "run/below"])
        self.assertEqual((self.folder / "run").read_text(), "precious")

    def test_generate_from_no_run(self):
        self.refused("generate", "nowhere", naming=["nowhere"])
        (self.folder / "empty").mkdir()
        self.refused("generate", "empty", naming=["empty"])
        (self.folder / "file").write_text("text")
        self.refused("generate", "file", naming=["file"])

    def test_generate_from_a_damaged_model(self):
        folder = self.folder / "run"
        (folder / "model").mkdir(parents=True)
        (folder / "config.yaml").write_text("model: {layers: 2, width: 32, heads: 4, vocab: 64, context: 16}\nresume: none\n")
        # More of them are in tests/engine/checkpoint/safetensors_test.cc and tests/fuzz/checkpoint.cc.
        for damage in (b"", b"\x0a\0\0\0\0\0\0\0" + b'{"a": "b"}'):
            (folder / "model/model.safetensors").write_bytes(damage)
            self.refused("generate", "run", naming=["model.safetensors"])
