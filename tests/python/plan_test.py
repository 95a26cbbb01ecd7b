"""twobw plan and twobw topology: their output matches their input, and `train` accepts it."""
import json
import os

from support import TINY, TWO_CORES, Run, TestCase, slow, twobw, words

GPT_2_2B = {"model.layers": 32, "model.width": 2304, "model.heads": 32, "model.vocab": 50304, "model.context": 512}
PAPER = """
name: the paper's cluster
nodes: [{name: n, count: 8, devices: 8 x V100-16GB, link: {bandwidth: 150GB/s, latency: 5us}}]
network: {bandwidth: 25Gbit/s, latency: 20us, shared: true}
"""


class PlanTest(TestCase):
    def plan(self, *arguments, settings=TINY, code=0):
        process = twobw("plan", *words(settings), *arguments, cwd=self.folder)
        self.assertEqual(process.returncode, code, process.stderr + process.stdout)
        self.assertEqual(process.stderr, "")
        return process.stdout

    def plan_json(self, *arguments, **options):
        return json.loads(self.plan("--json", *arguments, **options))

    def cluster(self, text):
        (self.folder / "c.yaml").write_text(text)
        return "--cluster", "c.yaml"

    def test_this_machine(self):
        text = self.plan("--explain")
        for part in ("on this machine", "MODELLED", "tokens/s", "memory", "chosen", "why it lost"):
            self.assertIn(part, text)
        plan = self.plan_json()
        self.assertTrue(plan["modelled"])
        self.assertEqual(plan["devices"], len(os.sched_getaffinity(0)))

    def test_topology_is_a_cluster_to_plan_for(self):
        process = twobw("topology", "--output", "c.yaml", cwd=self.folder)
        self.assertEqual(process.returncode, 0, process.stderr)
        text = (self.folder / "c.yaml").read_text()
        for word in ("measured", "assumed", "CPU core"):
            self.assertIn(word, text)
        self.assertEqual(self.plan_json("--cluster", "c.yaml")["devices"], len(os.sched_getaffinity(0)))
        self.assertEqual(twobw("topology").stdout.splitlines()[0], text.splitlines()[0])

    def test_train_takes_what_plan_writes(self):
        self.plan("--stages", "2", "--batch", "8", "--write", "run.yaml", settings={**TINY, "run_dir": "run"})
        process = twobw("train", "run.yaml", "train.updates=2", cwd=self.folder)
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertEqual(len(Run(self.folder / "run").updates), 2)
        self.assertEqual(len(Run(self.folder / "run").summary["stages"]), 2)

    def test_plan_auto_prints_forecast_and_measurement(self):
        settings = {**TINY, "plan": "auto", "run_dir": "run", "train.updates": 6}
        process = twobw("train", *words(settings), cwd=self.folder)
        self.assertEqual(process.returncode, 0, process.stderr)
        for part in ("measuring the layers", "planned: ", "forecast ", "of tensors, measured "):
            self.assertIn(part, process.stdout)
        summary = Run(self.folder / "run").summary
        self.assertGreater(summary["forecast"]["tokens_per_s"]["forecast"], 0)
        self.assertEqual(len(summary["forecast"]["memory"]), len(summary["split"]))
        self.assertEqual(len(summary["stages"]), summary.get("replicas", 1) * len(summary["split"]))
        for forecast, stage in zip(summary["forecast"]["memory"], summary["stages"]):  # of the first replica
            self.assertEqual(forecast["measured"], stage["peak_bytes"])
            for name in ("weights", "gradients", "optimizer"):
                self.assertEqual(forecast["terms"][name]["forecast"], stage["memory"][name], name)
            self.assertAlmostEqual(forecast["ratio"], 1, delta=0.1)
        self.assertIn("plan: none", (self.folder / "run/config.yaml").read_text())  # repeats the run, not the search
        self.assertIn("planned: ", (self.folder / "run/log.txt").read_text())
        explained = twobw("plan", *words(TINY), "--profile", "run/profile.json", "--explain", cwd=self.folder)
        self.assertEqual(explained.returncode, 0, explained.stderr)
        self.assertNotIn("MODELLED", explained.stdout)

    def test_a_written_plan_is_simulated_on_its_cluster(self):
        """On unlike devices each stage has its own device, which the file of the run does not name."""
        cluster = self.cluster("""
nodes:
  - {name: a, devices: [1 x T4, 1 x H100], link: {bandwidth: 15GB/s, latency: 5us}}
  - {name: b, devices: [2 x V100-16GB], link: {bandwidth: 64GB/s, latency: 5us}}
network: {bandwidth: 25Gbit/s, latency: 20us, shared: true}
""")
        settings = {"model.layers": 12, "model.width": 1024, "model.heads": 16, "train.precision": "fp16"}
        fixed = ("--schedule", "2bw", "--stages", "3", "--replicas", "1", "--batch", "64")
        plan = self.plan_json(*cluster, *fixed, "--write", "run.yaml", settings=settings)["plan"]
        self.assertGreater(len({stage["kind"] for stage in plan["stage_plans"]}), 1)
        simulated = twobw("simulate", "run.yaml", *cluster, "--json", cwd=self.folder)
        self.assertEqual(simulated.returncode, 0, simulated.stderr)
        simulated = json.loads(simulated.stdout)
        self.assertAlmostEqual(simulated["tokens_per_s"] / plan["simulated_tokens_per_s"], 1, delta=0.01)
        for devices, stage in zip(simulated["devices"], plan["stage_plans"], strict=True):
            self.assertEqual(devices, {key: stage[key] for key in ("kind", "replicas")})
        text = twobw("simulate", "run.yaml", *cluster, cwd=self.folder).stdout
        self.assertIn(f" on {plan['stage_plans'][0]['kind']} on {plan['stage_plans'][0]['replicas'][0]['node']}, ", text)

    def test_a_file_may_have_an_equals_sign_in_its_name(self):
        self.plan("--stages", "2", "--batch", "8", "--write", "lr=0.1.yaml", settings=TINY)
        too_long_for_a_name = "data.train=[" + ", ".join(["synthetic"] * 50) + "]"
        process = twobw("plan", "lr=0.1.yaml", "pipeline.microbatch=1", "--stages", "2", cwd=self.folder)
        self.assertEqual(process.returncode, 0, process.stderr)
        process = twobw("plan", "lr=0.1.yaml", too_long_for_a_name, cwd=self.folder)
        self.assertIn("data.train", process.stderr)
        self.assertEqual(process.returncode, 2)

    @slow
    def test_a_synchronous_run_is_not_compared(self):
        settings = {**TINY, "plan": "auto", "run_dir": "run", "train.updates": 6}
        for sync_updates, said in ((6, True), (0, False)):
            process = twobw("train", *words({**settings, "pipeline.sync_updates": sync_updates}), cwd=self.folder)
            self.assertEqual(process.returncode, 0, process.stderr)
            delayed = Run(self.folder / "run").summary["schedule"] == "2bw"
            self.assertEqual("is not held against this run" in process.stdout, said and delayed, process.stdout)

    def test_gpus_of_a_profile_are_planned_for(self):
        settings = {**TINY, "devices": "[cuda:0/4]"}  # however many stages TINY has
        process = twobw("plan", *words(settings), cwd=self.folder)
        self.assertEqual(process.returncode, 2)
        self.assertIn("devices names GPUs; --profile or --cluster must describe them", process.stderr)
        # A profile of this machine's cores, as if a slice had been measured.
        made = twobw("profile", *words(TINY), "--sizes", "1", "--rounds", "1", "--output", "cores.json", cwd=self.folder)
        self.assertEqual(made.returncode, 0, made.stderr)
        profile = json.loads((self.folder / "cores.json").read_text())
        profile["device"] = "cuda: one of 4 slices of a GPU"
        (self.folder / "slices.json").write_text(json.dumps(profile))
        arguments = (*words(settings), "--profile", "slices.json", "--batch", "8", "--stages", "4", "--write", "run.yaml")
        planned = twobw("plan", *arguments, cwd=self.folder)
        self.assertEqual(planned.returncode, 0, planned.stderr)
        text = (self.folder / "run.yaml").read_text()
        for slice_ in range(4):
            self.assertIn(f"cuda:0/4.{slice_}", text)
        self.assertIn("plan: none", text)
        capped = twobw("plan", *arguments, "pipeline.memory_limit=0.0001", cwd=self.folder)
        self.assertEqual(capped.returncode, 1)

    def test_a_delay_is_not_worth_a_little_throughput(self):
        cluster = "nodes: [{devices: 2 x CPU core, link: {bandwidth: 20GB/s, latency: 5us}}]"
        arguments = (*self.cluster(cluster), "--batch", "64", "--microbatch", "2")
        fastest = self.plan_json(*arguments, "--tolerance", "0")["plan"]
        simple = self.plan_json(*arguments, "--tolerance", "1")["plan"]
        self.assertGreaterEqual(fastest["tokens_per_s"], simple["tokens_per_s"])
        self.assertNotEqual(simple["schedule"], "2bw")
        self.assertEqual(simple["stages"], 1)

    def test_a_laptop_plans_for_a_cluster(self):
        cluster = self.cluster(PAPER)
        arguments = (*cluster, "--batch", "512", "--precision", "fp16")
        plan = self.plan_json(*arguments, settings=GPT_2_2B)
        self.assertEqual(plan["devices"], 64)
        self.assertLessEqual(plan["plan"]["stages"] * plan["plan"]["replicas"], 64)
        layer = 0
        for stage in plan["plan"]["stage_plans"]:
            self.assertEqual(stage["first_layer"], layer)
            self.assertEqual(len(stage["replicas"]), plan["plan"]["replicas"])
            self.assertLessEqual(stage["memory_bytes"], 0.9 * stage["capacity_bytes"])
            self.assertAlmostEqual(sum(stage["memory_bytes_by_term"].values()), stage["memory_bytes"])
            layer = stage["last_layer"] + 1
        self.assertEqual(layer, plan["layers"])
        chosen = [candidate for candidate in plan["candidates"] if candidate["chosen"]]
        self.assertEqual([candidate["best"]["schedule"] for candidate in chosen], [plan["plan"]["schedule"]])
        for candidate in plan["candidates"]:
            self.assertTrue(candidate["chosen"] or candidate["reason"], candidate)

    def test_what_is_fixed_stays_fixed(self):
        cluster = self.cluster(PAPER)
        arguments = ("--schedule", "flush", "--stages", "16", "--replicas", "2", "--microbatch", "2", "--extra", "1")
        plan = self.plan_json(*cluster, *arguments, "--batch", "64", "--precision", "fp16", settings=GPT_2_2B)["plan"]
        keys = ("schedule", "stages", "replicas", "microbatch", "extra")
        self.assertEqual([plan[key] for key in keys], ["flush", 16, 2, 2, 1])

    def test_what_is_not_fixed_is_chosen(self):
        cluster = self.cluster(PAPER)
        arguments = (*cluster, "--schedule", "2bw", "--stages", "8", "--batch", "512", "--precision", "fp16")

        def plan(*more):
            return self.plan_json(*arguments, *more, settings=GPT_2_2B)["plan"]

        free = plan()
        for flag in ("recompute", "double-buffer-gradients"):
            for choice in (f"--{flag}", f"--no-{flag}"):
                self.assertGreaterEqual(free["tokens_per_s"], plan(choice)["tokens_per_s"] * (1 - 1e-6), choice)
        single = plan("--no-double-buffer-gradients")
        self.assertFalse(single["double_buffer_gradients"])
        self.assertEqual({stage["gradient_buffers"] for stage in single["stage_plans"]}, {1})
        # The last stage has none in flight when it predicts, but some when it steps.
        self.assertEqual([stage["weight_versions"] for stage in single["stage_plans"]], 7 * [2] + [1])
        paper = plan("--no-double-buffer-gradients", "pipeline.predict=false")
        self.assertEqual({stage["weight_versions"] for stage in paper["stage_plans"]}, {2})
        self.assertTrue(all(stage["recompute"] for stage in plan("--recompute")["stage_plans"]))
        tight = plan("--microbatch", "32")  # no stage can keep the activations of 32 sequences
        self.assertTrue(any(stage["recompute"] for stage in tight["stage_plans"]))

    def test_what_is_predicted_from(self):
        """Of the true weights in single precision one copy more than the paper's rule needs."""
        arguments = (*self.cluster(PAPER), "--schedule", "2bw", "--stages", "4", "--replicas", "1", "--batch", "16",
                     "--microbatch", "2", "--microbatches", "8", "--extra", "1")
        text = self.plan(*arguments)
        self.assertRegex(text, r"\nprediction +from the first 4, 5, 6, 8 of 8 microbatches of the batch before\n")
        plan = self.plan_json(*arguments)["plan"]
        self.assertIs(plan["predict"], True)

        off = {**TINY, "pipeline.predict": "false"}
        self.assertNotIn("prediction", self.plan(*arguments, "--write", "run.yaml", settings=off))
        self.assertRegex((self.folder / "run.yaml").read_text(), r"\n  predict: false ")
        paper = self.plan_json(*arguments, settings=off)["plan"]
        self.assertIs(paper["predict"], False)
        terms = [stage["memory_bytes_by_term"] for stage in (plan["stage_plans"][1], paper["stage_plans"][1])]
        self.assertEqual(terms[0]["master"], terms[0]["weights"] / 2)
        self.assertEqual(terms[1]["master"], 0)
        self.assertEqual({**terms[0], "master": 0}, {**terms[1], "master": 0})

        half = self.plan_json(*arguments, "--precision", "fp16")["plan"]
        half_paper = self.plan_json(*arguments, "--precision", "fp16", settings=off)["plan"]
        self.assertEqual(*([stage["memory_bytes"] for stage in each["stage_plans"]] for each in (half, half_paper)))

        few = (*arguments[:-6], "--microbatches", "5", "--microbatch", "2")
        self.assertIn("; less than half on the first stage: expect a higher loss than under flush", self.plan(*few))

    def test_devices_before_bf16(self):
        cluster = self.cluster("nodes: [{devices: 2 x T4, link: {bandwidth: 15GB/s, latency: 10us}}]\n")
        arguments = (*cluster, "--batch", "8", "--precision", "fp16", "--write", "run.yaml")
        self.assertTrue(self.plan_json(*arguments)["modelled"])
        self.assertIn("precision: fp16", (self.folder / "run.yaml").read_text())
        process = twobw("plan", *words(TINY), *cluster, "--precision", "bf16", cwd=self.folder)
        self.assertEqual(process.returncode, 2)
        self.assertIn("bf16, for which device 'T4' has no rate; allowed: fp16, fp32", process.stderr)

    def test_a_profile_in_bf16_on_cores(self):
        settings = {**TINY, "train.precision": "bf16", "devices": TWO_CORES}
        measured = twobw("profile", *words(settings), "--rounds", 2, "--sizes", "1,2", "--output", "bf16.json",
                         cwd=self.folder)
        self.assertEqual(measured.returncode, 0, measured.stderr)
        self.assertEqual(json.loads((self.folder / "bf16.json").read_text())["precision"], "bf16")
        plan = self.plan_json("--profile", "bf16.json", "--stages", "2", "--batch", "8", "--schedule", "2bw",
                              settings=settings)
        self.assertFalse(plan["modelled"])
        terms = plan["plan"]["stage_plans"][0]["memory_bytes_by_term"]
        self.assertEqual(terms["weights"], terms["master"])  # two versions of 2 bytes, and 4

    def test_a_model_that_does_not_fit(self):
        cluster = self.cluster("nodes: [{devices: 2 x V100-16GB, link: {bandwidth: 150GB/s}}]\n")
        text = self.plan(*cluster, "--batch", "64", settings=GPT_2_2B, code=1)
        for part in ("NO PLAN FITS", "lacks", "GiB", "stage", "would make it fit"):
            self.assertIn(part, text)
        plan = self.plan_json(*cluster, "--batch", "64", settings=GPT_2_2B, code=1)
        self.assertIsNone(plan["plan"])
        self.assertGreater(plan["closest"]["bytes_over_capacity"], 0)
        self.assertTrue(plan["remedies"])
