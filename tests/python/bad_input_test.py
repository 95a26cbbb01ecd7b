"""Whatever is wrong with the input: one sentence on stderr, exit code 2, at once, and nothing is left behind."""
import json
import resource
import unittest

from support import TINY, TestCase, twobw, words

SECONDS = 1.0  # of a core: other tests keep the cores busy


def spent_by_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class BadInputTest(TestCase):
    def tree(self):
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))

    def refused(self, *arguments, naming=()):
        """Runs the program in the test's folder; `naming` is what the sentence must hold."""
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

    def test_verify_refuses_alike(self):
        self.settings_refused({"pipeline.stages": 99}, ["pipeline.stages is 99"], "verify")
        self.settings_refused({"data.train": "nowhere.txt"}, ["nowhere.txt"], "verify")
        self.settings_refused({"model.layres": 2}, ["model.layers"], "verify")

    # The schedule

    def test_too_few_microbatches(self):
        changes = {"pipeline.schedule": "2bw", "pipeline.stages": 4, "pipeline.extra": 2, "pipeline.microbatches": 5}
        sizes = ["pipeline.microbatches", "d = 4", "e = 2", "the smallest allowed m is"]
        predicted = [*sizes, "m = 5", "with prediction", "no gradient to predict from", "d+e = 6",
                     "with pipeline.predict: false d-1+e = 5"]
        for command in ("train", "verify"):
            self.settings_refused(changes, predicted, command)
        changes = {**changes, "pipeline.predict": "false", "pipeline.microbatches": 4}
        for command in ("train", "verify"):
            self.settings_refused(changes, [*sizes, "m = 4", "read before they exist", "d-1+e = 5"], command)

    def test_unknown_schedule(self):
        self.settings_refused({"pipeline.schedule": "3bw"}, ["pipeline.schedule", "3bw", "2bw", "flush", "stash"])

    def test_a_trace_that_cannot_be_written(self):
        self.refused("train", *words({**TINY, "run_dir": "run"}), "--trace", "nowhere/trace.json",
                     naming=["--trace", "'nowhere/trace.json'", "No such file"])

    # Stages and layers

    def test_a_schedule_to_compare_with_that_cannot_run(self):
        settings = words({**TINY, "run_dir": "run", "pipeline.stages": 3, "pipeline.schedule": "flush",
                          "pipeline.microbatches": 1})
        self.refused("train", *settings, "--beside", "1f1b", naming=["'1f1b'", "sequential, gpipe, flush, 2bw, stash"])
        self.refused("train", *settings, "--beside", "2bw", naming=["m = 1 is too small", "d+e = 3"])
        self.refused("train", *settings, "pipeline.predict=false", "--beside", "2bw",
                     naming=["m = 1 is too small", "d-1+e = 2"])

    def test_more_stages_than_layers(self):
        self.settings_refused({"pipeline.stages": 99}, ["pipeline.stages is 99", "layers", "no layer", "at most"])

    def test_stage_without_a_layer(self):
        changes = {"pipeline.stages": 3, "pipeline.split": "[3,0,3]"}
        self.settings_refused(changes, ["pipeline.split", "[3,0,3]", "no layer"])

    def test_split_that_does_not_cover_the_model(self):
        for split, covered in (("[1,1]", "covers 2"), ("[50,50]", "covers 100")):
            changes = {"pipeline.stages": 2, "pipeline.split": split}
            self.settings_refused(changes, ["pipeline.split", covered, "must cover"])

    def test_split_of_another_length(self):
        self.settings_refused({"pipeline.stages": 2, "pipeline.split": "[2,2,2]"}, ["pipeline.split", "stages is 2"])

    def test_no_stages(self):
        self.settings_refused({"pipeline.stages": 0}, ["pipeline.stages", "at least 1"])

    def test_replicas_that_make_no_run(self):
        self.settings_refused({"pipeline.replicas": 0}, ["pipeline.replicas", "at least 1"])
        for command in ("train", "verify"):
            self.settings_refused({"pipeline.replicas": 10**4}, ["pipeline.replicas", "at most", "1024"], command)

    # The model

    def test_unknown_family(self):
        self.settings_refused({"model.family": "gtp"}, ["model.family", "gtp", "gpt"])

    def test_heads_that_do_not_divide_the_width(self):
        self.settings_refused({"model.heads": 5}, ["model.heads", "32"])

    def test_what_llama_cannot_be(self):
        llama = {"model.family": "llama"}
        for command in ("train", "verify", "plan"):
            self.settings_refused({**llama, "model.dropout": 0.1}, ["model.dropout is 0.1", "llama"], command)
        self.settings_refused({**llama, "model.head_size": 7}, ["size 7", "model.head_size", "even"])
        self.settings_refused({**llama, "model.kv_heads": 3}, ["model.kv_heads is 3", "divide model.heads"])
        self.settings_refused({**llama, "model.rope_scaling": "llama3"}, ["model.rope_original_context", "llama3"])
        self.settings_refused({"model.kv_heads": 2}, ["model.kv_heads is 2", "model.family is gpt"])

    def test_what_bert_cannot_be(self):
        bert = {"model.family": "bert"}
        for command in ("train", "verify", "plan"):
            self.settings_refused({**bert, "model.head": "causal_lm"}, ["model.head is causal_lm", "masked_lm"],
                                  command)
        self.settings_refused({**bert, "model.kv_heads": 2}, ["model.kv_heads is 2", "model.family is bert"])
        self.settings_refused({**bert, "data.train": "text.txt"}, ["model.vocab is 64", "masked_lm", "257"])
        self.settings_refused({"model.token_types": 3}, ["model.token_types is 3", "model.family is gpt"])

    def test_documents_that_cannot_be_told_apart(self):
        reset = {"model.reset_documents": "true"}
        (self.folder / "text").write_bytes(b"abc " * 40)
        for command in ("train", "verify", "plan"):
            self.settings_refused({**reset, "model.family": "bert"}, ["model.reset_documents", "bert"], command)
        self.settings_refused({**reset, "model.head": "regression"}, ["model.reset_documents", "regression"])
        self.settings_refused({**reset, "model.family": "llama", "model.rope_scaling": "dynamic",
                               "model.rope_original_context": 8}, ["model.reset_documents", "dynamic"])
        for key in ("data.train", "data.validation"):
            self.settings_refused({**reset, key: "text", "model.vocab": 256},
                                  [key, "text without documents", "prepare"])

    def test_heads_that_do_not_fit(self):
        self.settings_refused({"model.head": "masked_lm"}, ["model.head is masked_lm", "gpt", "causal_lm"])
        self.settings_refused({"model.head": "bool"}, ["model.head", "bool", "classification", "regression"])
        self.settings_refused({"model.labels": 3}, ["model.labels is 3", "be 2 where model.head is auto"])
        self.settings_refused({"model.head": "classification", "model.labels": 1}, ["model.labels is 1", "at least 2"])

    # Data

    def test_vocab_smaller_than_the_data(self):
        (self.folder / "text").write_bytes(b"abc\xc8" * 40)
        for key in ("data.train", "data.validation"):
            self.settings_refused({key: "text"}, ["model.vocab is 64", key, "token 200", "201"])

    def test_missing_data(self):
        for key in ("data.train", "data.validation"):
            self.settings_refused({key: "nowhere.txt"}, [key, "nowhere.txt", "No such file"])

    def test_data_that_is_a_folder(self):
        (self.folder / "texts").mkdir()
        self.settings_refused({"data.train": "texts"}, ["data.train", "texts", "not a regular file"])

    def test_data_shorter_than_one_window(self):
        (self.folder / "text").write_bytes(b"\x01" * 16)
        self.settings_refused({"data.train": "text"}, ["data.train", "16 bytes", "17"])
        (self.folder / "text").write_bytes(b"")
        self.settings_refused({"data.train": "text"}, ["data.train", "0 bytes", "17"])

    # The configuration

    def test_missing_configuration(self):
        self.refused("train", "nowhere.yaml", naming=["nowhere.yaml", "No such file"])

    def test_numbers_beyond_every_size(self):
        huge = 2 * 10**9
        for key in ("model.layers", "pipeline.microbatches"):
            for command in ("train", "verify", "plan", "simulate"):
                self.settings_refused({key: huge}, [f"{key} is {huge}", "at most"], command)
        for option in ("--stages", "--microbatches", "--extra", "--slack", "--updates"):
            for command in ("schedule", "simulate"):
                self.refused(command, "flush", option, huge, naming=[str(huge), "at most"])
        self.settings_refused({"pipeline.stages": 1, "devices": f"[cpu:0-{huge}]"}, ["devices", f"cpu:0-{huge}"])

    def test_two_configurations(self):
        for name in ("a.yaml", "b.yaml"):
            (self.folder / name).write_text("train: {updates: 1}\n")
        self.refused("train", "a.yaml", "b.yaml", naming=["a.yaml", "b.yaml"])

    def test_configuration_that_is_no_yaml(self):
        (self.folder / "a.yaml").write_text("model:\n  layers: [1, 2\n")
        self.refused("train", "a.yaml", naming=["a.yaml"])

    def test_wrong_type(self):
        self.settings_refused({"model.layers": "two"}, ["model.layers", "'two'", "whole number"])
        self.settings_refused({"optimizer.lr": "[1]"}, ["optimizer.lr", "number"])
        (self.folder / "a.yaml").write_text("model:\n  layers: 2\n  tied: 3\n")
        self.refused("train", "a.yaml", naming=["model.tied", "a.yaml:3"])

    def test_unknown_key(self):
        self.settings_refused({"pipeline.stagse": 2}, ["pipeline.stagse", "pipeline.stages"])
        (self.folder / "a.yaml").write_text("model:\n  layer: 2\n")
        self.refused("train", "a.yaml", naming=["model.layer", "a.yaml:2", "model.layers"])

    def test_no_updates(self):
        self.settings_refused({"train.updates": 0}, ["train.updates", "at least 1"])

    # Devices

    def test_bad_core(self):
        self.settings_refused({"pipeline.stages": 1, "devices": "[cpu:4095]"}, ["devices", "cpu:4095"])
        self.settings_refused({"pipeline.stages": 1, "devices": "[gpu]"}, ["devices", "gpu"])
        self.settings_refused({"pipeline.stages": 2, "devices": "[cpu:0]"}, ["devices", "stages is 2"])
        changes = {"pipeline.stages": 1, "pipeline.replicas": 2, "devices": "[cpu:0]"}
        self.settings_refused(changes, ["devices", "2 replicas of 1 stages"])

    def test_bad_gpu(self):
        self.settings_refused({"pipeline.stages": 1, "devices": "[cuda:99]"}, ["devices", "cuda:99"])
        self.settings_refused({"pipeline.stages": 1, "devices": "[cuda:0/x]"}, ["devices", "cuda:0/x", "cuda:0/4"])
        self.settings_refused({"pipeline.stages": 2, "devices": "[cuda:0/4]"}, ["devices", "stages is 2"])
        self.settings_refused({"pipeline.stages": 2, "devices": "[cuda:0, cpu:0]"}, ["devices", "not both"])

    # Plans

    CLUSTER = "nodes: [{devices: 8 x V100-16GB, link: {bandwidth: 150GB/s, latency: 5us}}]\n"

    def plan_refused(self, *arguments, naming, cluster=CLUSTER):
        (self.folder / "c.yaml").write_text(cluster)
        self.refused("plan", *words(TINY), "--cluster", "c.yaml", *arguments, naming=naming)

    def test_cluster_without_devices(self):
        self.plan_refused(cluster="", naming=["c.yaml", "nothing", "nodes"])
        self.plan_refused(cluster="nodes: []", naming=["nodes", "c.yaml:1", "at least one"])
        self.plan_refused(cluster="nodes: [{name: a}]", naming=["nodes[0].devices", "missing", "c.yaml"])
        self.plan_refused(cluster="nodes: [{devices: 0 x H100}]", naming=["nodes[0].devices", "0 x H100"])
        self.refused("plan", "--cluster", "nowhere.yaml", naming=["nowhere.yaml", "No such file"])

    def test_cluster_with_impossible_figures(self):
        cluster = self.CLUSTER.replace("150GB/s", "0")
        self.plan_refused(cluster=cluster, naming=["nodes[0].link.bandwidth is 0", "c.yaml:1", "above 0"])
        cluster = "devices: {x: {memory: 0}}\nnodes: [{devices: x}]\n"
        self.plan_refused(cluster=cluster, naming=["devices.x.memory is 0", "above 0"])
        cluster = "devices: {x: {memory: 1GB}}\nnodes: [{devices: x}]\n"
        self.plan_refused(cluster=cluster, naming=["'x'", "tflops", "profile"])

    def test_cluster_of_unknown_devices(self):
        self.plan_refused(cluster="nodes: [{devices: V100}]", naming=["nodes[0].devices", "'V100'", "V100-16GB"])
        self.plan_refused(cluster="nodes: [{device: H100}]", naming=["nodes[0].device", "nodes[0].devices"])

    def profile(self, **changes):
        """Of a model of width 32."""
        seconds = {"median": 1e-3, "spread": 0}
        times = {"microbatch": 1, "forward_seconds": seconds, "backward_seconds": seconds,
                 "recomputed_backward_seconds": seconds, "saved_bytes": 1, "kept_output_bytes": 1,
                 "output_bytes": 1, "working_bytes": 1}
        kinds = ["embedding", "attention_in", "attention_out", "mlp_up", "mlp_activation", "mlp_down", "head"]
        model = {"family": "gpt", "layers": 1, "width": 32, "heads": 4, "vocab": 64, "context": 16, "tied": True,
                 "dropout": 0, "head": "auto", "labels": 2, "positions": 0, "kv_heads": 0, "head_size": 0, "hidden": 0,
                 "token_types": 2, "next_sentence": False, "padding": True, "reset_documents": False,
                 "qkv_bias": False, "qk_norm": False}
        profile = {"version": 6, "device": "a core", "device_memory_bytes": 1, "program": "0", "libtorch": "0",
                   "created": "today", "model": model, "precision": "fp32", "optimizer": "adamw", "layers": kinds,
                   "kinds": {kind: {"parameters": 1, "tied_parameters": 0, "times": [times]} for kind in kinds},
                   "token_bytes_per_sequence": 1, "step_seconds_per_parameter": seconds,
                   "predict_seconds_per_parameter": seconds, "links": {}}
        (self.folder / "p.json").write_text(json.dumps({**profile, **changes}))
        return "p.json"

    def test_profile_of_another_model_or_version(self):
        self.plan_refused("model.width=64", "--profile", self.profile(), naming=["model.width was 32", "has 64"])
        for version in (1, 5):
            self.plan_refused("--profile", self.profile(version=version),
                              naming=["p.json", f"version {version}", "version 6"])
        self.plan_refused("--profile", self.profile(optimizer="sgd"), naming=["optimizer.name was sgd"])

    def test_profile_that_is_none(self):
        self.plan_refused("--profile", "nowhere.json", naming=["nowhere.json", "No such file"])
        (self.folder / "p.json").write_text("{")
        self.plan_refused("--profile", "p.json", naming=["p.json", "not JSON"])
        (self.folder / "p.json").write_text('{"version": 6}')
        self.plan_refused("--profile", "p.json", naming=["p.json", "lacks the field device"])

    def test_contradictory_plans(self):
        self.plan_refused("--stages", "9", naming=["9", "8"])
        self.plan_refused("--stages", "4", "--replicas", "3", naming=["pipeline.stages is 4", "3 replicas", "8"])
        self.plan_refused("--stages", "99", naming=["99", "layers"])
        self.plan_refused("--schedule", "2bw", "--stages", "4", "--microbatches", "2", "--batch", "64",
                          naming=["microbatches", "m = 2", "d+e = 4"])
        self.plan_refused("--schedule", "2bw", "--stages", "4", "--microbatches", "2", "--batch", "64",
                          "pipeline.predict=false", naming=["microbatches", "m = 2", "d-1+e = 3"])
        self.plan_refused("--microbatch", "9", "--batch", "8", naming=["9", "8"])
        self.plan_refused("--schedule", "3bw", naming=["3bw", "2bw"])
        self.plan_refused("--batch", "0", naming=["0", "at least 1"])
        self.plan_refused("--margin", "1.5", naming=["margin", "1.5"])
        self.plan_refused("--precision", "fp8", naming=["fp8", "bf16"])
        self.plan_refused("--profile", self.profile(), "--microbatch", "7", naming=["7", "1"])

    def test_topology_that_cannot_be_written(self):
        """Said of the option: nothing has been measured yet."""
        for output, why in (("nowhere/c.yaml", "No such file"), (".", "Is a directory")):
            self.refused("topology", "--output", output, naming=["--output", f"'{output}'", why])

    # The command line and the run directory

    def test_unknown_command(self):
        self.refused("trian", naming=["trian", "train"])

    def test_unknown_option(self):
        self.refused("train", "--fast", naming=["--fast"])
        self.refused("--fast", naming=["--fast"])

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
        for damage in (b"", b"\x08", b"\xff" * 64, b"\x02\0\0\0\0\0\0\0[]", b"\x0a\0\0\0\0\0\0\0" + b'{"a": "b"}'):
            (folder / "model/model.safetensors").write_bytes(damage)
            self.refused("generate", "run", naming=["model.safetensors"])

    def test_generate_with_bad_options(self):
        self.refused("generate", "run", "--length", "0", naming=["--length"])
        self.refused("generate", "run", "--temperature", "-1", naming=["--temperature"])


if __name__ == "__main__":
    unittest.main()
