"""BERT, and heads that tell of sequences, in from transformers and out to it again, as huggingface_test.py does it for
decoders; heads that a folder lacks, and heads that it has besides."""
import json
import os
import unittest

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # everything is made here, nothing is fetched

import torch
from safetensors.torch import load_file, save_file
from transformers import (AutoModelForMaskedLM, AutoModelForPreTraining, AutoModelForSequenceClassification, BertConfig,
                          BertForMaskedLM, BertForPreTraining, BertForSequenceClassification, BertModel, GPT2Config,
                          GPT2ForSequenceClassification, GPT2LMHeadModel, LlamaConfig,
                          LlamaForSequenceClassification, LlamaModel, Qwen2Config, Qwen2ForSequenceClassification,
                          Qwen3Config, Qwen3ForSequenceClassification)

from model_folders import TRAINING, FolderTestCase, make_biases_matter
from support import Run, reference, relative_error, slow, words

TOLERANCE = 1e-5
BERT = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
        "max_position_embeddings": 16, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
GPT2 = {"vocab_size": 64, "n_positions": 16, "n_embd": 32, "n_layer": 2, "n_head": 4, "bos_token_id": None,
        "eos_token_id": None, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
LLAMA = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 16,
         "tie_word_embeddings": False, "bos_token_id": None, "eos_token_id": None}


def models():
    """A random model of every kind, by name."""
    torch.manual_seed(3)
    yield "bert", BertForMaskedLM(BertConfig(**BERT))
    yield "bert classes", BertForSequenceClassification(BertConfig(**BERT, num_labels=3))
    yield "bert number", BertForSequenceClassification(BertConfig(**BERT, num_labels=1, problem_type="regression"))
    named = {"id2label": {0: "no", 1: "yes"}, "label2id": {"no": 0, "yes": 1}}
    yield "gpt2 classes", GPT2ForSequenceClassification(GPT2Config(**GPT2, **named, pad_token_id=7))
    yield "llama classes", LlamaForSequenceClassification(LlamaConfig(**LLAMA, num_labels=3, pad_token_id=7))
    yield "qwen2 number", Qwen2ForSequenceClassification(Qwen2Config(**LLAMA, num_labels=1, pad_token_id=7))
    yield "qwen3 classes", Qwen3ForSequenceClassification(Qwen3Config(**LLAMA, num_labels=3, head_dim=16,
                                                                      pad_token_id=7))


def logits(model, tokens, types):
    """Of one sequence without padding; `types` for BERT."""
    if model.config.model_type == "bert":
        given = {"token_type_ids": types}
    else:
        given, model.config.pad_token_id = {}, None  # the last token is the last
    with torch.no_grad():
        return model.double()(tokens.unsqueeze(0), **given).logits.squeeze(0)


def loss(model, batches, count):
    """The mean over what counts in all of them."""
    total, number = 0, 0
    for k in range(count):
        for row, length in enumerate(batches[f"lengths.{k}"].long()):
            field = {name: batches[f"{name}.{k}"][row] for name in
                     ("tokens", "token_types", "targets", "labels", "values") if f"{name}.{k}" in batches}
            types = field["token_types"][:length].long().unsqueeze(0) if "token_types" in field else None
            found = logits(model, field["tokens"][:length].long(), types)
            if "targets" in field:
                targets = field["targets"][:length].long()
                total += torch.nn.functional.cross_entropy(found, targets, ignore_index=-1, reduction="sum").item()
                number += int((targets >= 0).sum())
            elif "labels" in field:
                total += torch.nn.functional.cross_entropy(found, field["labels"].long()).item()
                number += 1
            else:
                total += (found.item() - field["values"].item()) ** 2
                number += 1
    return total / number


def auto_class(model):
    return AutoModelForMaskedLM if isinstance(model, BertForMaskedLM) else AutoModelForSequenceClassification


class HuggingFaceHeadsTest(FolderTestCase):
    def train_from(self, source, run, **settings):
        """One update with a learning rate of 0, which leaves the weights as they are."""
        return self.call("train", *words({**TRAINING, "model.from": source, "pipeline.stages": 3, "train.updates": 1,
                                          "optimizer.lr": 0, "run_dir": run, **settings}))

    def loaded(self, kind, folder):
        """A model of theirs that found all of its weights, and no others."""
        model, info = kind.from_pretrained(folder, output_loading_info=True)
        for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"):
            self.assertEqual(list(info[problem]), [], problem)
        return model.eval()

    def test_in_trained_without_a_step_and_out_is_the_same(self):
        tokens = torch.randint(64, (13,), generator=torch.Generator().manual_seed(5))
        types = torch.arange(13).ge(6).long().unsqueeze(0)
        for name, model in models():
            with self.subTest(model=name):
                shards = {"max_shard_size": "12KB"} if name in ("bert", "bert classes", "gpt2 classes") else {}
                source = self.save(model, name + " in", **shards)
                self.assertEqual((source / "model.safetensors.index.json").exists(), bool(shards))
                padding, labels = model.config.pad_token_id, model.config.id2label
                run, out = self.folder / (name + " run"), self.folder / (name + " out")
                said = self.train_from(source, run)
                self.assertIn(f"starting from the weights in {source}\n", said)
                reference("batches", 4, self.folder / "batches", run / "config.yaml")
                expected = loss(model, load_file(self.folder / "batches"), 4)
                self.assertLess(abs(Run(run).losses[0] / expected - 1), TOLERANCE)
                self.call("export", run, out)
                self.assert_same_tensors(self.weights(source), self.weights(out))
                self.assert_same_tensors(self.weights(run / "model"), self.weights(out))
                there = self.loaded(auto_class(model), out)
                self.assertIs(type(there), type(model))
                self.assertEqual(there.config.pad_token_id, padding)
                self.assertEqual(there.config.id2label, labels)
                self.assertLess(relative_error(logits(there, tokens, types), logits(model, tokens, types)), TOLERANCE)

    def test_positions_beyond_the_context_are_kept(self):
        for name, model in models():
            if name not in ("bert", "bert classes", "gpt2 classes"):
                continue
            with self.subTest(model=name):
                source, run = self.save(model, name + " in"), self.folder / name
                self.train_from(source, run, **{"model.context": 9})
                reference("batches", 4, self.folder / "batches", run / "config.yaml")
                batches = load_file(self.folder / "batches")
                self.assertEqual(batches["tokens.0"].shape[1], 9)
                self.assertLess(abs(Run(run).losses[0] / loss(model, batches, 4) - 1), TOLERANCE)
                self.assert_same_tensors(self.weights(source), self.weights(run / "model"))
                self.assertIs(type(self.loaded(auto_class(model), run / "model")), type(model))

    def test_next_sentence(self):
        torch.manual_seed(3)
        model = BertForPreTraining(BertConfig(**BERT))
        source, run = self.save(model), self.folder / "run"
        said = self.train_from(source, run, **{"model.next_sentence": "true"})
        self.assertIn(f"starting from the weights in {source}\n", said)
        self.assert_same_tensors(self.weights(source), self.weights(run / "model"))
        there = self.loaded(AutoModelForPreTraining, run / "model")
        self.assertIs(type(there), BertForPreTraining)
        reference("batches", 4, self.folder / "batches", run / "config.yaml")
        batches, model = load_file(self.folder / "batches"), model.double()
        totals, counts = [0, 0], [0, 0]
        for k in range(4):
            tokens, types, lengths, targets, labels = (
                batches[f"{name}.{k}"].long() for name in ("tokens", "token_types", "lengths", "targets", "labels"))
            real = torch.arange(tokens.shape[1]) < lengths.unsqueeze(1)
            with torch.no_grad():
                found = model(tokens, attention_mask=real.long(), token_type_ids=types)
            for i, (their_logits, wanted) in enumerate(((found.prediction_logits.flatten(0, 1), targets.flatten()),
                                                        (found.seq_relationship_logits, labels))):
                totals[i] += torch.nn.functional.cross_entropy(their_logits, wanted, ignore_index=-1,
                                                               reduction="sum").item()
                counts[i] += int((wanted >= 0).sum())
        expected = totals[0] / counts[0] + totals[1] / counts[1]
        self.assertLess(abs(Run(run).losses[0] / expected - 1), TOLERANCE)
        # Where the model has not been trained on it, that head is new.
        source = self.save(BertForMaskedLM(BertConfig(**BERT)), "masked")
        said = self.train_from(source, self.folder / "run 2", **{"model.next_sentence": "true"})
        self.assertIn("not there, and initialised: bert.pooler.dense.weight, bert.pooler.dense.bias, "
                      "cls.seq_relationship.weight, cls.seq_relationship.bias\n", said)

    def test_an_untied_output(self):
        """Its bias is the output's own; the other, which they do not use, is left out."""
        model = BertForMaskedLM(BertConfig(**BERT, tie_word_embeddings=False))
        source = self.save(model)
        said = self.train_from(source, self.folder / "run")
        self.assertIn(f"starting from the weights in {source}; left out: cls.predictions.bias\n", said)
        before, after = self.weights(source), self.weights(self.folder / "run/model")
        del before["cls.predictions.bias"]
        self.assert_same_tensors(before, after)
        there = AutoModelForMaskedLM.from_pretrained(self.folder / "run/model").eval()
        tokens, types = torch.arange(3, 12), torch.zeros(1, 9, dtype=torch.long)
        self.assertLess(relative_error(logits(there, tokens, types), logits(model, tokens, types)), TOLERANCE)

    @slow
    def test_a_pipeline_that_starts_from_a_model_equals_the_oracle(self):
        for name, model in models():
            if name not in ("bert", "bert classes", "qwen3 classes"):
                continue
            with self.subTest(model=name):
                source = self.save(model, name)
                output = self.call("verify", f"model.from={source}", "pipeline.stages=3", "train.updates=4")
                self.assertIn("equal to the serial oracle, bit for bit", output)

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
                line += f"; not there, and initialised: {new}" if new else ""
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
        """As those of bert-base-uncased: other names for norms, and a table that is no weight."""
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
        self.assertIn("left out, since transformers makes them itself: bert.embeddings.position_ids\n", said)
        del older["bert.embeddings.position_ids"]
        self.assert_same_tensors(older, self.weights(self.folder / "bytes"))

    @slow
    def test_a_tied_output_that_differs_is_refused(self):
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

    def test_what_is_tied_may_have_the_name_of_the_output(self):
        source = self.save(BertForMaskedLM(BertConfig(**BERT)))
        tensors = self.weights(source)
        expected = self.call("eval", source, "data=synthetic", "--json")
        for name, output in (("cls.predictions.bias", "cls.predictions.decoder.bias"),
                             ("bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight")):
            changed = {output if each == name else each: tensor for each, tensor in tensors.items()}
            save_file(changed, source / "model.safetensors", {"format": "pt"})
            self.assertEqual(self.call("eval", source, "data=synthetic", "--json"), expected)

    def test_a_run_of_our_own_has_their_logits(self):
        """A model that was never theirs; the shorter sequence ends at its padding."""
        lengths = torch.tensor([16, 9])
        real = torch.arange(16) < lengths.unsqueeze(1)
        generator = torch.Generator().manual_seed(5)
        tokens = torch.randint(1, 64, (2, 16), generator=generator) * real
        types = torch.randint(2, (2, 16), generator=generator) * real
        bert = {"model.family": "bert", "model.hidden": 48, "model.norm_eps": 1e-12}
        llama = {"model.family": "llama", "model.kv_heads": 2, "model.qk_norm": "true"}
        classes, number = {"model.head": "classification", "model.num_labels": 3}, {"model.head": "regression"}
        labels, values = {"labels": torch.tensor([2, 0])}, {"values": torch.tensor([0.5, 2.0])}
        targets = {"targets": torch.where(real, tokens, -1)}
        for name, changes, kind, target in (
                ("masked", bert, BertForMaskedLM, targets),
                ("classes", {**bert, **classes}, BertForSequenceClassification, labels),
                ("number", {**bert, **number}, BertForSequenceClassification, values),
                ("gpt", classes, GPT2ForSequenceClassification, labels),
                ("qwen3", {**llama, **number}, Qwen3ForSequenceClassification, values)):
            with self.subTest(model=name):
                run = self.train(changes, name)
                self.call("export", run.folder, self.folder / f"{name} bf16", "--dtype", "bf16")
                automatic = AutoModelForMaskedLM if name == "masked" else AutoModelForSequenceClassification
                half = automatic.from_pretrained(self.folder / f"{name} bf16", dtype="auto")
                self.assertEqual(half.dtype, torch.bfloat16)
                model = self.loaded(automatic, run.folder / "model").double()
                self.assertIs(type(model), kind)
                problem = {"labels": "single_label_classification", "values": "regression"}.get(next(iter(target)))
                self.assertEqual(model.config.problem_type, problem)
                self.assertFalse((run.folder / "model/generation_config.json").exists())
                given = {"tokens": tokens, "lengths": lengths, **target}
                theirs = {"attention_mask": real.long()}
                if name in ("masked", "classes", "number"):
                    given["token_types"] = theirs["token_type_ids"] = types
                else:  # bytes are texts, all of them; here 0 is none
                    self.assertIsNone(model.config.pad_token_id)
                    model.config.pad_token_id = 0
                save_file({key: tensor.float() for key, tensor in given.items()}, self.folder / "input")
                reference("gradients", run.folder / "model", self.folder / "input", self.folder / "output",
                          run.folder / "config.yaml")
                ours = load_file(self.folder / "output")["logits"]
                with torch.no_grad():
                    expected = model(tokens, **theirs).logits
                if name == "masked":  # of padding nobody asks
                    ours, expected = ours[real], expected[real]
                self.assertLess(relative_error(ours, expected), TOLERANCE)

    def test_refusals(self):
        source = self.save(BertForSequenceClassification(BertConfig(**BERT, num_labels=3)))
        train = ("train", *words({**TRAINING, "model.from": source, "run_dir": self.folder / "run"}))
        self.assertIn("model.head is causal_lm; where model.family is bert it must be masked_lm, classification or "
                      "regression", self.refused(*train, "model.head=causal_lm"))
        config = json.loads((source / "config.json").read_text())
        for key, value in (("problem_type", "multi_label_classification"), ("num_labels", 2), ("hidden_act", "relu"),
                           ("architectures", ["BertForTokenClassification"]), ("is_decoder", True)):
            (source / "config.json").write_text(json.dumps({**config, key: value}))
            self.assertIn(f"has {key} = {json.dumps(value)}; it must", self.refused(*train))
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


if __name__ == "__main__":
    unittest.main()
