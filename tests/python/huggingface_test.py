"""Models from transformers and back: the same tensors and settings, heads that a folder lacks or has in addition, and
refusals. families_test.py compares logits and gradients."""
import json
import os
import shutil

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # everything is made here, nothing is fetched

import torch
from safetensors.torch import load_file, save_file
from transformers import (AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForPreTraining,
                          AutoModelForSequenceClassification, AutoTokenizer, BertConfig, BertForMaskedLM,
                          BertForPreTraining, BertForSequenceClassification, BertModel, GPT2Config,
                          GPT2ForSequenceClassification, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM,
                          LlamaForSequenceClassification, LlamaModel, Qwen2Config, Qwen2ForCausalLM,
                          Qwen2ForSequenceClassification, Qwen3Config, Qwen3ForCausalLM, Qwen3ForSequenceClassification)

from model_folders import TRAINING, FolderTestCase, make_biases_matter
from support import FULL, ROOT, reference, relative_error, slow, twobw, words

TOLERANCE = 1e-5
ROPE = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8}
LLAMA = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 16,
         "tie_word_embeddings": False, "bos_token_id": None, "eos_token_id": 5}
GPT2 = {"vocab_size": 64, "n_positions": 16, "n_embd": 32, "n_layer": 2, "n_head": 4, "bos_token_id": None,
        "eos_token_id": None, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
BERT = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
        "max_position_embeddings": 16, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def models():
    """Random models by name: every architecture and head, tied and untied."""
    torch.manual_seed(3)
    yield "gpt2", GPT2LMHeadModel(GPT2Config(**GPT2))
    named = {"id2label": {0: "no", 1: "yes"}, "label2id": {"no": 0, "yes": 1}}
    yield "gpt2 classes", GPT2ForSequenceClassification(GPT2Config(**GPT2, **named, pad_token_id=7))
    scaled = {**LLAMA, "tie_word_embeddings": True, "rope_parameters": dict(ROPE)}
    yield "llama scaled", LlamaForCausalLM(LlamaConfig(**scaled))
    yield "qwen2 number", Qwen2ForSequenceClassification(Qwen2Config(**LLAMA, num_labels=1, pad_token_id=7))
    yield "qwen3", Qwen3ForCausalLM(Qwen3Config(**LLAMA, head_dim=16))
    yield "bert", BertForMaskedLM(BertConfig(**BERT))
    yield "bert classes", BertForSequenceClassification(BertConfig(**BERT, num_labels=3))


def auto_class(kind):
    if "Sequence" in kind.__name__:
        return AutoModelForSequenceClassification
    return AutoModelForMaskedLM if kind is BertForMaskedLM else AutoModelForCausalLM


def logits(model, tokens):
    with torch.no_grad():
        return model.double()(tokens).logits


class HuggingFaceTest(FolderTestCase):
    def train_from(self, source, run, **settings):
        """One update with a learning rate of 0, which leaves the weights as they are."""
        return self.call("train", *words({**TRAINING, "model.from": source, "pipeline.stages": 3, "train.updates": 1,
                                          "optimizer.lr": 0, "run_dir": run, **settings}))

    def loaded(self, kind, folder):
        """Their model, which finds all of its weights and no others."""
        model, info = kind.from_pretrained(folder, output_loading_info=True)
        for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"):
            self.assertEqual(list(info[problem]), [], problem)
        return model.eval()

    def test_round_trip(self):
        tokens = torch.randint(8, 64, (1, 13), generator=torch.Generator().manual_seed(5))
        for name, model in models():
            with self.subTest(model=name):
                shards = {"max_shard_size": "12KB"} if name in ("gpt2", "bert classes") else {}
                source = self.save(model, name + " in", **shards)
                self.assertEqual((source / "model.safetensors.index.json").exists(), bool(shards))
                run = self.folder / (name + " run")
                self.assertIn(f"starting from the weights in {source}\n", self.train_from(source, run))
                out = run / "model"
                self.assert_same_tensors(self.weights(source), self.weights(out))
                if shards or FULL:
                    out = self.folder / (name + " out")
                    self.call("export", run, out)
                    self.assert_same_tensors(self.weights(source), self.weights(out))
                there = self.loaded(auto_class(type(model)), out)
                self.assertIs(type(there), type(model))
                for key in ("eos_token_id", "pad_token_id", "id2label"):
                    self.assertEqual(getattr(there.config, key), getattr(model.config, key))
                self.assertLess(relative_error(logits(there, tokens), logits(model, tokens)), TOLERANCE)

    def test_pipelines_equal_the_oracle(self):
        for name, model in models():
            if name == "llama scaled" or FULL and name == "bert classes":
                source = self.save(model, name)
                output = self.call("verify", f"model.from={source}", "pipeline.stages=3", "train.updates=4")
                self.assertIn("equal to the serial oracle, bit for bit", output)

    @slow
    def test_own_runs_have_their_logits(self):
        """Models that were never theirs, in every number format."""
        llama = {"model.family": "llama", "model.kv_heads": 2, "model.hidden": 48, "model.tied": "false"}
        bert = {"model.family": "bert", "model.hidden": 48, "model.norm_eps": 1e-12}
        classes, number = {"model.head": "classification", "model.num_labels": 3}, {"model.head": "regression"}
        tokens = torch.randint(1, 64, (1, 16), generator=torch.Generator().manual_seed(5))
        for name, changes, kind, dtype in (
                ("gpt", {}, GPT2LMHeadModel, "fp16"),
                ("llama", llama, LlamaForCausalLM, "fp32"),
                ("qwen2", {**llama, "model.qkv_bias": "true"}, Qwen2ForCausalLM, "bf16"),
                ("qwen3", {**llama, "model.qk_norm": "true", **number}, Qwen3ForSequenceClassification, "fp32"),
                ("masked", bert, BertForMaskedLM, "bf16"),
                ("classes", {**bert, **classes}, BertForSequenceClassification, "fp32")):
            with self.subTest(model=name):
                run = self.train(changes, name)
                self.call("export", run.folder, self.folder / f"{name} out", "--dtype", dtype)
                types = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
                automatic = auto_class(kind)
                self.assertEqual(automatic.from_pretrained(self.folder / f"{name} out", dtype="auto").dtype, types[dtype])
                model = self.loaded(automatic, run.folder / "model")
                self.assertIs(type(model), kind)
                if "Sequence" in kind.__name__:
                    self.assertEqual(model.config.problem_type,
                                     "single_label_classification" if name == "classes" else "regression")
                self.assertEqual((run.folder / "model/generation_config.json").exists(), "CausalLM" in kind.__name__
                                 or kind is GPT2LMHeadModel)
                given = {"tokens": tokens, "targets": tokens}
                if "Sequence" in kind.__name__:
                    target = {"labels": torch.tensor([2])} if name == "classes" else {"values": torch.tensor([0.5])}
                    given = {"tokens": tokens, "lengths": torch.tensor([16]), **target}
                if changes.get("model.family") == "bert":
                    given |= {"lengths": torch.tensor([16]), "token_types": torch.zeros_like(tokens)}
                save_file({key: tensor.float() for key, tensor in given.items()}, self.folder / "input")
                reference("gradients", run.folder / "model", self.folder / "input", self.folder / "output",
                          run.folder / "config.yaml")
                ours = load_file(self.folder / "output")["logits"]
                self.assertLess(relative_error(ours, logits(model, tokens)), TOLERANCE)

    def test_positions_beyond_the_context_are_kept(self):
        for name, model in models():
            if name == "bert" or FULL and name == "gpt2 classes":
                source, run = self.save(model, name + " in"), self.folder / name
                self.train_from(source, run, **{"model.context": 9})
                self.assert_same_tensors(self.weights(source), self.weights(run / "model"))
                self.assertIs(type(self.loaded(auto_class(type(model)), run / "model")), type(model))

    def test_next_sentence(self):
        torch.manual_seed(3)
        source, run = self.save(BertForPreTraining(BertConfig(**BERT))), self.folder / "run"
        self.train_from(source, run, **{"model.next_sentence": "true"})
        self.assert_same_tensors(self.weights(source), self.weights(run / "model"))
        self.assertIs(type(self.loaded(AutoModelForPreTraining, run / "model")), BertForPreTraining)
        # A model without that head gets a new one.
        source = self.save(BertForMaskedLM(BertConfig(**BERT)), "masked")
        said = self.train_from(source, self.folder / "run 2", **{"model.next_sentence": "true"})
        self.assertIn("missing, so initialized: bert.pooler.dense.weight, bert.pooler.dense.bias, "
                      "cls.seq_relationship.weight, cls.seq_relationship.bias\n", said)

    def test_an_untied_output(self):
        """Its bias is the output's own; the other, which they do not use, is left out."""
        source = self.save(BertForMaskedLM(BertConfig(**BERT, tie_word_embeddings=False)))
        said = self.train_from(source, self.folder / "run")
        self.assertIn(f"starting from the weights in {source}; left out: cls.predictions.bias\n", said)
        before = self.weights(source)
        del before["cls.predictions.bias"]
        self.assert_same_tensors(before, self.weights(self.folder / "run/model"))

    @slow
    def test_heads_that_are_missing(self):
        transform = ", ".join(f"cls.predictions.transform.{part}" for part in
                              ("dense.weight", "dense.bias", "LayerNorm.weight", "LayerNorm.bias"))
        pooler = "pooler.dense.bias, pooler.dense.weight"
        classes = {"model.head": "classification", "model.num_labels": 3}
        classifier = "classifier.weight, classifier.bias"
        cases = (
            (BertModel(BertConfig(**BERT)), {}, BertForMaskedLM, f"{transform}, cls.predictions.bias", pooler),
            (BertModel(BertConfig(**BERT)), classes, BertForSequenceClassification, classifier, None),
            (BertModel(BertConfig(**BERT), add_pooling_layer=False), {"model.head": "regression"},
             BertForSequenceClassification, f"bert.pooler.dense.weight, bert.pooler.dense.bias, {classifier}", None),
            (BertForPreTraining(BertConfig(**BERT)), {}, BertForMaskedLM, None,
             "bert.pooler.dense.bias, bert.pooler.dense.weight, cls.seq_relationship.bias, "
             "cls.seq_relationship.weight"),
            (BertForSequenceClassification(BertConfig(**BERT, num_labels=2)), classes, BertForSequenceClassification,
             "classifier.weight [3, 32] (there it is [2, 32]), classifier.bias [3] (there it is [2])", None),
            (GPT2LMHeadModel(GPT2Config(**{**GPT2, "eos_token_id": 5}, tie_word_embeddings=False)), classes,
             GPT2ForSequenceClassification, "score.weight", "lm_head.weight"),
            (LlamaModel(LlamaConfig(**LLAMA)), {"model.head": "regression"}, LlamaForSequenceClassification,
             "score.weight", None),
        )
        for number, (model, settings, kind, new, left_out) in enumerate(cases):
            with self.subTest(model=type(model).__name__, **settings):
                source, run = self.save(model, f"source {number}"), self.folder / f"run {number}"
                said = self.train_from(source, run, **settings)
                line = f"starting from the weights in {source}"
                line += f"; missing, so initialized: {new}" if new else ""
                line += f"; left out: {left_out}" if left_out else ""
                self.assertIn(line + "\n", said)
                automatic = AutoModelForMaskedLM if kind is BertForMaskedLM else AutoModelForSequenceClassification
                there = self.loaded(automatic, run / "model")
                self.assertIs(type(there), kind)
                if there.config.model_type != "bert":  # as padding no token but the end of a text
                    self.assertEqual(there.config.pad_token_id, model.config.eos_token_id)
                if "model.num_labels" in settings:
                    self.assertEqual(there.config.num_labels, 3)
                # All below the heads is as it was.
                before, after = model.base_model.state_dict(), there.base_model.state_dict()
                below = [name for name in before if not name.startswith("pooler.")]
                self.assertGreater(len(below), 10)
                for name in below:
                    self.assertTrue(torch.equal(before[name], after[name]), name)

    def test_older_files(self):
        """As in bert-base-uncased: other names for norms, and a buffer next to the weights."""
        model = make_biases_matter(BertForMaskedLM(BertConfig(**BERT)))
        source = self.save(model)
        tensors = self.weights(source)
        older = {name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
                 for name, tensor in tensors.items()}
        older["bert.embeddings.position_ids"] = torch.arange(16).unsqueeze(0)
        older["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"].clone()
        save_file(older, source / "model.safetensors", {"format": "pt"})
        self.train_from(source, self.folder / "run")
        self.assert_same_tensors(tensors, self.weights(self.folder / "run/model"))
        self.call("export", source, self.folder / "copy")
        self.assert_same_tensors(older, self.weights(self.folder / "copy"))
        self.call("export", source, self.folder / "half", "--dtype", "bf16")
        half = self.weights(self.folder / "half")
        self.assertEqual({str(tensor.dtype) for tensor in half.values()}, {"torch.bfloat16", "torch.int64"})
        self.assertTrue(torch.equal(half["bert.embeddings.position_ids"], older["bert.embeddings.position_ids"]))
        older["bert.embeddings.position_ids"] = older["bert.embeddings.position_ids"].byte()
        save_file(older, source / "model.safetensors", {"format": "pt"})
        said = self.call("export", source, self.folder / "bytes")
        self.assertIn("left out, since transformers computes them: bert.embeddings.position_ids\n", said)
        del older["bert.embeddings.position_ids"]
        self.assert_same_tensors(older, self.weights(self.folder / "bytes"))

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
        """AutoTokenizer takes Qwen 2's class for such a model by default, which splits numbers in another way."""
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
        self.assertIn("left out (weights in other formats, folders): onnx, pytorch_model.bin, "
                      "pytorch_model.bin.index.json, tf_model.h5\n", said)
        self.assertEqual({path.name for path in (self.folder / "out").iterdir()},
                         {"config.json", "generation_config.json", "model.safetensors", "README.md",
                          "additional_chat_templates"})
        self.assertEqual((self.folder / "out/additional_chat_templates/a.jinja").read_text(),
                         "additional_chat_templates")

    def test_the_newest_model_of_a_run_is_exported(self):
        """That of its end, or of a later checkpoint if the run was continued and killed."""
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
        source = self.save(LlamaForCausalLM(LlamaConfig(**{**LLAMA, "tie_word_embeddings": True})))
        table = "model.embed_tokens.weight"
        self.change_weights(source, lambda tensors: tensors.update({"lm_head.weight": tensors[table].clone()}))
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

    def test_a_tied_tensor_named_as_the_output(self):
        """As save_model of safetensors writes it."""
        gpt2, bert = GPT2LMHeadModel(GPT2Config(**GPT2)), BertForMaskedLM(BertConfig(**BERT))
        for model, table, output in (
                (gpt2, "transformer.wte.weight", "lm_head.weight"),
                (bert, "cls.predictions.bias", "cls.predictions.decoder.bias"),
                *(((bert, "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"),) if FULL else ())):
            with self.subTest(table=table):
                source = self.save(model, table)
                expected = self.call("eval", source, "data=synthetic", "--json")
                self.change_weights(source, lambda tensors: tensors.update({output: tensors.pop(table)}))
                self.assertEqual(self.call("eval", source, "data=synthetic", "--json"), expected)
                self.change_weights(source, lambda tensors: tensors.pop(output))
                self.assertIn(f"1 missing: {table}", self.refused("eval", source, "data=synthetic"))

    @slow
    def test_a_tied_bias_that_differs_is_refused(self):
        """transformers would not tie it."""
        source = self.save(BertForMaskedLM(BertConfig(**BERT)))
        tensors = self.weights(source)
        tensors["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"] + 1
        save_file(tensors, source / "model.safetensors", {"format": "pt"})
        sentence = (f"'{source}' holds cls.predictions.decoder.bias and cls.predictions.bias, which its config.json "
                    "ties, and they differ; ")
        self.assertIn(sentence + "one of the two must go\n", self.refused("eval", source, "data=synthetic"))
        tensors["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"].clone()
        save_file(tensors, source / "model.safetensors", {"format": "pt"})
        self.assertIn(sentence + "to keep both set tie_word_embeddings to false there\n",
                      self.refused("eval", source, "data=synthetic"))
        config = json.loads((source / "config.json").read_text())
        (source / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))
        self.call("eval", source, "data=synthetic")

    @slow
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
        name = "transformer.h.1.attn.c_attn.weight"
        for value, stages in ((float("nan"), 3), (float("inf"), 1)):
            self.change_weights(source, lambda tensors: tensors[name][3].fill_(value))
            sentence = self.refused("train", *words({**TRAINING, "model.from": source, "pipeline.stages": stages,
                                                     "run_dir": self.folder / f"run {value}"}))
            self.assertIn(f"'{name}' in model.from, '{source}', holds numbers that are not finite", sentence)
        self.assertIn(f"'{name}' holds numbers that are not finite",
                      self.refused("export", source, self.folder / "out", "--dtype", "fp16"))

    def test_refusals(self):
        source = self.save(LlamaForCausalLM(LlamaConfig(**LLAMA)))
        train = ("train", *words({**TRAINING, "model.from": source, "run_dir": self.folder / "run"}))
        self.assertIn("model.width is 48 in override 'model.width=48', but", self.refused(*train, "model.width=48"))
        self.assertIn("model.from is", self.refused(*train, f"run_dir={self.folder}"))
        config = json.loads((source / "config.json").read_text())
        # Other keys: tests/planning/architecture/huggingface_config_test.cc.
        (source / "config.json").write_text(json.dumps({**config, "attention_bias": True}))
        self.assertIn("has attention_bias = true; it must be false", self.refused(*train))
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

    def test_refusals_of_heads(self):
        source = self.save(BertForSequenceClassification(BertConfig(**BERT, num_labels=3)))
        train = ("train", *words({**TRAINING, "model.from": source, "run_dir": self.folder / "run"}))
        self.assertIn("model.head is causal_lm; where model.family is bert it must be masked_lm, classification or "
                      "regression", self.refused(*train, "model.head=causal_lm"))
        config = json.loads((source / "config.json").read_text())
        (source / "config.json").write_text(json.dumps({**config, "num_labels": 2}))
        self.assertIn("has num_labels = 2; it must", self.refused(*train))
        (source / "config.json").write_text(json.dumps(config))
        tensors = self.weights(source)
        tensors["classifier.weight"] = torch.zeros(4, 32)
        tensors["bert.embeddings.extra"] = torch.zeros(1)
        tensors["bert.encoder.layer.0.output.dense.bias"] = torch.zeros(32, dtype=torch.long)
        del tensors["bert.pooler.dense.bias"], tensors["bert.encoder.layer.1.attention.self.key.weight"]
        save_file(tensors, source / "model.safetensors", {"format": "pt"})
        sentence = self.refused(*train)
        for part in ("2 missing: bert.encoder.layer.1.attention.self.key.weight, bert.pooler.dense.bias; ",
                     "1 not expected: bert.embeddings.extra; ",
                     "1 of another shape: classifier.weight [4, 32] instead of [3, 32]; ",
                     "1 neither F32, BF16 nor F16: bert.encoder.layer.0.output.dense.bias (I64)"):
            self.assertIn(part, sentence)
        self.assertFalse((self.folder / "run").exists())

    @slow
    def test_a_model_of_very_many_positions(self):
        """Unused positions take neither time nor memory, and tensors are checked first."""
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
