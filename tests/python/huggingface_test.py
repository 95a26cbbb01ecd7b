"""In from transformers and out to it again: the same logits, the same tensors, the same bits in any layout."""
import json
import os
import shutil
import unittest

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # everything is made here, nothing is fetched

import torch
from safetensors.torch import load_file, save_file, save_model
from transformers import (AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel, LlamaConfig,
                          LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM)

from model_folders import TRAINING, FolderTestCase
from support import ROOT, TINY, Run, reference, relative_error, twobw, words

TOLERANCE = 1e-5
ROPE = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8}
LLAMA = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 16,
         "tie_word_embeddings": False, "bos_token_id": None, "eos_token_id": 5}
GPT2 = {"vocab_size": 64, "n_positions": 16, "n_embd": 32, "n_layer": 2, "n_head": 4, "bos_token_id": None,
        "eos_token_id": None, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}


def models():
    """A random model of every kind, by name."""
    torch.manual_seed(3)
    yield "gpt2", GPT2LMHeadModel(GPT2Config(**GPT2))
    yield "gpt2 untied", GPT2LMHeadModel(GPT2Config(**GPT2, tie_word_embeddings=False))
    yield "llama", LlamaForCausalLM(LlamaConfig(**LLAMA))
    tied = {**LLAMA, "tie_word_embeddings": True, "rope_parameters": dict(ROPE)}
    yield "llama scaled", LlamaForCausalLM(LlamaConfig(**tied))
    yield "qwen2", Qwen2ForCausalLM(Qwen2Config(**LLAMA))
    yield "qwen3", Qwen3ForCausalLM(Qwen3Config(**LLAMA, head_dim=16))


class HuggingFaceTest(FolderTestCase):
    def logits(self, model, tokens):
        with torch.no_grad():
            return model.double()(tokens).logits

    def loss(self, model, microbatches=4):
        """Of the first update's microbatches, the mean."""
        reference("batches", microbatches, self.folder / "batches", *words(TINY))
        batches, total = load_file(self.folder / "batches"), 0
        for k in range(microbatches):
            logits = self.logits(model, batches[f"tokens.{k}"].long())
            targets = batches[f"targets.{k}"].long()
            total += torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).item()
        return total / microbatches

    def test_in_trained_without_a_step_and_out_is_the_same(self):
        """A learning rate of 0 leaves the weights as they are; the loss is theirs."""
        tokens = torch.randint(64, (2, 16), generator=torch.Generator().manual_seed(5))
        for name, model in models():
            with self.subTest(model=name):
                shards = {"max_shard_size": "12KB"} if name in ("gpt2", "llama") else {}
                source = self.save(model, name + " in", **shards)
                self.assertEqual((source / "model.safetensors.index.json").exists(), bool(shards))
                run, out = self.folder / (name + " run"), self.folder / (name + " out")
                self.call("train", *words({**TRAINING, "model.from": source, "pipeline.stages": 3, "train.updates": 1,
                                           "optimizer.lr": 0, "run_dir": run}))
                self.assertLess(abs(Run(run).losses[0] / self.loss(model) - 1), TOLERANCE)
                self.call("export", run, out)
                self.assert_same_tensors(self.weights(source), self.weights(out))
                self.assert_same_tensors(self.weights(run / "model"), self.weights(out))
                there = AutoModelForCausalLM.from_pretrained(out)
                self.assertIs(type(there), type(model))
                self.assertEqual(there.config.eos_token_id, model.config.eos_token_id)
                self.assertLess(relative_error(self.logits(there, tokens), self.logits(model, tokens)), TOLERANCE)

    def test_a_pipeline_that_starts_from_a_model_equals_the_oracle(self):
        for name, model in models():
            if name not in ("gpt2", "llama scaled", "qwen3"):
                continue
            with self.subTest(model=name):
                source = self.save(model, name)
                output = self.call("verify", f"model.from={source}", "pipeline.stages=3")
                self.assertIn("equal to the serial oracle, bit for bit", output)

    def test_a_run_of_our_own_has_their_logits(self):
        """A model that was never theirs, in every number format."""
        llama = {"model.family": "llama", "model.kv_heads": 2, "model.hidden": 48, "model.tied": "false"}
        tokens = torch.randint(64, (1, 16), generator=torch.Generator().manual_seed(5))
        for name, changes, kind in (("gpt", {}, GPT2LMHeadModel), ("llama", llama, LlamaForCausalLM),
                                    ("qwen2", {**llama, "model.qkv_bias": "true"}, Qwen2ForCausalLM),
                                    ("qwen3", {**llama, "model.qk_norm": "true"}, Qwen3ForCausalLM)):
            run = self.train(changes, name)
            for dtype, theirs in (("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)):
                with self.subTest(model=name, dtype=dtype):
                    out = self.folder / f"{name} {dtype}"
                    self.call("export", run.folder, out, "--dtype", dtype)
                    model = AutoModelForCausalLM.from_pretrained(out, dtype="auto").eval()
                    self.assertIs(type(model), kind)
                    self.assertEqual(model.dtype, theirs)
                    if dtype != "fp32":
                        continue
                    inputs = {"tokens": tokens.float(), "targets": tokens.float()}
                    save_file(inputs, self.folder / "input")
                    reference("gradients", run.folder / "model", self.folder / "input",
                              self.folder / "output", run.folder / "config.yaml")
                    ours = load_file(self.folder / "output")["logits"]
                    self.assertLess(relative_error(ours, self.logits(model, tokens)), TOLERANCE)

    def test_the_tokenizer_goes_along(self):
        self.call("tokenizer", "train", "--vocab", 300, "--out", self.folder / "tokens", ROOT / "README.md")
        self.train({"model.vocab": 300, "model.family": "llama", "data.tokenizer": self.folder / "tokens"})
        self.call("export", self.folder / "run", self.folder / "out")
        tokenizer = AutoTokenizer.from_pretrained(self.folder / "out")
        text = "the pipeline, drained"
        ids = tokenizer(text)["input_ids"]
        self.assertEqual(tokenizer.decode(ids), text)
        process = twobw("tokenizer", "encode", self.folder / "tokens", input=text)
        self.assertEqual(process.stdout.split(), [str(each) for each in ids])

    def test_the_tokenizer_of_a_qwen_splits_as_it_did(self):
        """AutoTokenizer takes Qwen 2's class for such a model, which splits numbers otherwise, if not told."""
        self.call("tokenizer", "train", "--vocab", 300, "--out", self.folder / "tokens", ROOT / "README.md")
        text = "in 125 days"
        ids = twobw("tokenizer", "encode", self.folder / "tokens", input=text).stdout.split()
        for name in ("qkv_bias", "qk_norm"):
            run = self.train({"model.vocab": 300, "model.family": "llama", f"model.{name}": "true",
                              "data.tokenizer": self.folder / "tokens"}, name).folder
            self.call("export", run, self.folder / f"{name} out")
            theirs = AutoTokenizer.from_pretrained(self.folder / f"{name} out")
            self.assertEqual([str(id) for id in theirs(text)["input_ids"]], ids)
            self.assertEqual(theirs.eos_token, "<|endoftext|>")
            again = twobw("tokenizer", "encode", self.folder / f"{name} out", input=text)
            self.assertEqual(again.stdout.split(), ids)

    def test_links_to_themselves(self):
        source = self.save(GPT2LMHeadModel(GPT2Config(**GPT2)))
        self.call("tokenizer", "train", "--vocab", 300, "--out", source, ROOT / "README.md")
        (source / "chat_template.jinja").symlink_to("chat_template.jinja")
        (source / "generation_config.json").unlink()
        (source / "generation_config.json").symlink_to("generation_config.json")
        training = words({**TRAINING, "model.from": source, "run_dir": self.folder / "run"})
        self.assertIn("generation_config.json' cannot be read: Too many levels", self.refused("train", *training))

    def test_files_beside_a_model_that_is_exported(self):
        source = self.save(GPT2LMHeadModel(GPT2Config(**GPT2)))
        for name in ("pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5", "README.md"):
            (source / name).write_text(name)
        for name in ("onnx", "additional_chat_templates"):
            (source / name).mkdir()
            (source / name / "a.jinja").write_text(name)
        said = self.call("export", source, self.folder / "out")
        self.assertIn("left out, as weights in other formats or folders: onnx, pytorch_model.bin, "
                      "pytorch_model.bin.index.json, tf_model.h5\n", said)
        self.assertEqual({path.name for path in (self.folder / "out").iterdir()},
                         {"config.json", "generation_config.json", "model.safetensors", "README.md",
                          "additional_chat_templates"})
        self.assertEqual((self.folder / "out/additional_chat_templates/a.jinja").read_text(),
                         "additional_chat_templates")

    def test_the_newest_model_of_a_run_is_exported(self):
        """That of its end, or of a later checkpoint of a run that went on and was killed."""
        run = self.train({"checkpoint.every_updates": 2, "train.updates": 4}).folder
        self.assertIn(f"after update 4, {run}/model, is in", self.call("export", run, self.folder / "end"))
        ended = {name: (run / name).rename(self.folder / f"former {name}") for name in ("model", "summary.json")}
        self.call("train", f"resume={run}", "train.updates=6")
        newest = self.weights(run / "model")
        shutil.rmtree(run / "model")
        ended["model"].rename(run / "model")
        ended["summary.json"].rename(run / "summary.json")
        self.assertIn(f"after update 6, {run}/checkpoints/update-00000006/model, is in",
                      self.call("export", run, self.folder / "killed"))
        shutil.rmtree(run / "model")
        (run / "summary.json").unlink()
        self.call("export", run, self.folder / "cut")
        for name in ("killed", "cut"):
            out = self.folder / name
            self.assert_same_tensors(newest, self.weights(out))
            self.assertEqual({file.name for file in out.iterdir()},
                             {file.name for file in (self.folder / "end").iterdir()})
            self.assertIsInstance(AutoModelForCausalLM.from_pretrained(out), GPT2LMHeadModel)
        shutil.rmtree(run / "checkpoints")
        self.assertIn("has no model yet", self.refused("export", run, self.folder / "none"))

    def change_weights(self, source, change):
        tensors = {name: tensor.clone() for name, tensor in self.weights(source).items()}
        change(tensors)
        save_file(tensors, source / "model.safetensors", {"format": "pt"})

    def test_a_tied_output_that_differs_is_refused(self):
        """transformers would not tie it."""
        llama = {**LLAMA, "tie_word_embeddings": True}
        for table, model in (("transformer.wte", GPT2LMHeadModel(GPT2Config(**GPT2))),
                             ("model.embed_tokens", LlamaForCausalLM(LlamaConfig(**llama)))):
            with self.subTest(table=table):
                source = self.save(model, table)
                table += ".weight"
                self.change_weights(source, lambda tensors: tensors.update({"lm_head.weight": tensors[table].clone()}))
                self.call("eval", source, "data=synthetic")
                tied = self.call("eval", source, "data=synthetic", "--json")
                self.change_weights(source, lambda tensors: tensors["lm_head.weight"][-1, -1].add_(1))
                self.assertIn(f"'{source}' holds lm_head.weight and {table}, which its config.json ties, and they "
                              "differ; to keep both set tie_word_embeddings to false there\n",
                              self.refused("eval", source, "data=synthetic"))
                config = json.loads((source / "config.json").read_text())
                (source / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))
                self.assertNotEqual(self.call("eval", source, "data=synthetic", "--json"), tied)
                (source / "config.json").write_text(json.dumps(config))
                self.change_weights(source, lambda tensors: tensors.update({"lm_head.weight": torch.zeros(4, 4)}))
                self.assertIn("and they differ", self.refused("eval", source, "data=synthetic"))

    def test_a_tied_table_may_have_the_name_of_the_output(self):
        """As save_model of safetensors writes it."""
        llama = {**LLAMA, "tie_word_embeddings": True}
        for table, model in (("transformer.wte", GPT2LMHeadModel(GPT2Config(**GPT2))),
                             ("model.embed_tokens", LlamaForCausalLM(LlamaConfig(**llama)))):
            with self.subTest(table=table):
                source, other = self.save(model, table), self.save(model, table + " other")
                save_model(model, source / "model.safetensors", {"format": "pt"})
                self.assertNotIn(table + ".weight", self.weights(source))
                self.assertEqual(*(self.call("eval", folder, "data=synthetic", "--json") for folder in (source, other)))
                self.change_weights(source, lambda tensors: tensors.pop("lm_head.weight"))
                self.assertIn(f"1 missing: {table}.weight", self.refused("eval", source, "data=synthetic"))

    def test_a_folder_in_a_models_folder_is_not_the_model(self):
        source = self.save(GPT2LMHeadModel(GPT2Config(**GPT2)))
        (source / "model").mkdir()
        (source / "config.yaml").write_text("of: something else\n")
        self.call("generate", source, "--ids", "1,2", "--tokens", 1)
        self.call("eval", source, "data=synthetic")
        self.call("export", source, self.folder / "out")
        self.assert_same_tensors(self.weights(source), self.weights(self.folder / "out"))

    def test_weights_that_are_not_finite(self):
        source = self.save(GPT2LMHeadModel(GPT2Config(**GPT2)))
        tensors = self.weights(source)
        name = "transformer.h.1.attn.c_attn.weight"
        for value in (float("nan"), float("inf")):
            tensors[name][3, 4] = value
            save_file(tensors, source / "model.safetensors", {"format": "pt"})
            for stages in (1, 3):
                sentence = self.refused("train", *words({**TRAINING, "model.from": source, "pipeline.stages": stages,
                                                         "run_dir": self.folder / f"run {value} {stages}"}))
                self.assertIn(f"'{name}' in model.from, '{source}', holds numbers that are not finite", sentence)
            self.assertIn(f"'{name}' holds numbers that are not finite",
                          self.refused("export", source, self.folder / "out", "--dtype", "fp16"))

    def test_refusals(self):
        source = self.save(LlamaForCausalLM(LlamaConfig(**LLAMA)))
        train = ("train", *words({**TRAINING, "model.from": source, "run_dir": self.folder / "run"}))
        self.assertIn("model.width is 48 in override 'model.width=48', but", self.refused(*train, "model.width=48"))
        self.assertIn("model.from is", self.refused(*train, f"run_dir={self.folder}"))
        config = json.loads((source / "config.json").read_text())
        for key, value in (("attention_bias", True), ("hidden_act", "relu"), ("model_type", "mistral")):
            (source / "config.json").write_text(json.dumps({**config, key: value}))
            self.assertIn(f"has {key} = {json.dumps(value)}; it must be", self.refused(*train))
        (source / "config.json").write_text(json.dumps({**config, "num_key_value_heads": 4}))
        sentence = self.refused(*train)
        for part in "kv":
            self.assertIn(f"model.layers.0-1.self_attn.{part}_proj.weight [16, 32] instead of [32, 32]", sentence)
        (source / "config.json").write_text(json.dumps(config))
        file = source / "model.safetensors"
        file.write_bytes(file.read_bytes()[:-1])
        self.assertIn("is damaged", self.refused(*train))
        file.unlink()
        self.assertIn("holds no weights", self.refused(*train))
        self.assertIn("config.json", self.refused("train", f"model.from={self.folder / 'nowhere'}"))
        self.assertFalse((self.folder / "run").exists())
        self.assertIn("cannot be read", self.refused("export", self.folder / "run", self.folder / "out"))
        self.assertFalse((self.folder / "out").exists())

    def test_a_model_of_very_many_positions(self):
        """What is not used of them takes neither time nor memory, and tensors are checked before."""
        source = self.save(LlamaForCausalLM(LlamaConfig(**LLAMA)))
        config = json.loads((source / "config.json").read_text())
        few = self.call("generate", source, "--ids", "1,2", "--tokens", 3)
        (source / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 1 << 24}))
        self.assertEqual(self.call("generate", source, "--ids", "1,2", "--tokens", 3), few)
        (source / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 1 << 24,
                                                        "head_dim": 4096}))
        self.assertIn("of another shape", self.refused("generate", source, "--ids", "1,2", "--tokens", 3))

    def test_folders_that_cannot_be_made(self):
        source = self.save(GPT2LMHeadModel(GPT2Config(**GPT2)))
        file = self.folder / "file"
        file.write_text("")
        self.assertIn(f"'{file}' is a file; give a new folder", self.refused("export", source, file))
        self.assertIn(f"'{file}/out' cannot be made: Not a directory", self.refused("export", source, file / "out"))
        self.assertIn("is not empty", self.refused("export", source, source))


if __name__ == "__main__":
    unittest.main()
