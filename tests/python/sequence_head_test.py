"""Classes and numbers of sequences by decoders, against transformers' ...ForSequenceClassification on the same random
weights. Theirs ends a sequence at its padding, ours at its length."""
import os
import unittest

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # everything is made here, nothing is fetched

import torch
from safetensors.torch import load_file, save_file
from transformers import (GPT2Config, GPT2ForSequenceClassification, LlamaConfig, LlamaForSequenceClassification,
                          Qwen2Config, Qwen2ForSequenceClassification, Qwen3Config, Qwen3ForSequenceClassification)

import gpt2_test
import llama_test
from support import TestCase, random_weights, reference, words

TOLERANCE = 1e-5
PAD, LENGTHS, LENGTH = 0, [12, 3, 7, 1], 12
LABELS = {"model.head": "classification", "model.num_labels": 3}


def llama_names(name):
    return ["score.weight"] if name == "head.weight" else llama_test.their_names(name)


def gpt_names(name):
    return ["score.weight"] if name == "head.weight" else [gpt2_test.their_name(name)]


class SequenceHeadTest(TestCase):
    def compare(self, shape, model, names_of, layout=lambda name, tensor: tensor):
        reference("initial", self.folder / "initial", *words(shape))
        weights = random_weights(load_file(self.folder / "initial"))
        generator = torch.Generator().manual_seed(11)
        real = torch.arange(LENGTH) < torch.tensor(LENGTHS).unsqueeze(1)
        tokens = torch.randint(1, shape["model.vocab"], real.shape, generator=generator) * real
        regression = shape["model.head"] == "regression"
        target = torch.tensor([0.5, -2.0, 3.25, 1.0]).double() if regression else torch.tensor([2, 0, 1, 1])
        save_file(weights, self.folder / "weights")
        save_file({"tokens": tokens.float(), "lengths": torch.tensor(LENGTHS).float(),
                   "values" if regression else "labels": target.float()}, self.folder / "input")
        reference("gradients", *(self.folder / name for name in ("weights", "input", "output")), *words(shape))
        ours = load_file(self.folder / "output")

        model = model.double()
        parameters = dict(model.named_parameters())
        names = {name: names_of(name) for name in weights}
        self.assertEqual({each for all_of in names.values() for each in all_of}, set(parameters))
        with torch.no_grad():
            for name, weight in weights.items():
                weight = layout(name, weight)
                parts = weight.split([parameters[each].shape[0] for each in names[name]])
                for each, part in zip(names[name], parts):
                    parameters[each].copy_(part)
        theirs = model(tokens, labels=target)
        theirs.loss.backward()

        expected = {"logits": theirs.logits.detach(), "loss": theirs.loss.detach()}
        for name in weights:
            gradient = torch.cat([parameters[each].grad for each in names[name]])
            expected["grad." + name] = layout(name, gradient)
        self.assert_near(ours, expected, TOLERANCE)

    def compare_llama(self, changes, model, config, **theirs):
        for head, outputs in ((LABELS, 3), ({"model.head": "regression"}, 1)):
            with self.subTest(**head):
                built = model(llama_test.theirs(config, num_labels=outputs, pad_token_id=PAD, **theirs))
                self.compare({**llama_test.SHAPE, **changes, **head}, built, llama_names)

    def test_gpt2(self):
        shape = {**gpt2_test.GPT2Test.SMALL, "model.tied": "true"}
        for head, outputs in ((LABELS, 3), ({"model.head": "regression"}, 1)):
            with self.subTest(**head):
                config = GPT2Config(vocab_size=61, n_positions=12, n_embd=30, n_layer=2, n_head=3, resid_pdrop=0.0,
                                    embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=None, eos_token_id=None,
                                    pad_token_id=PAD, num_labels=outputs, attn_implementation="eager")
                self.compare({**shape, **head}, GPT2ForSequenceClassification(config), gpt_names,
                             gpt2_test.their_layout)

    def test_llama(self):
        self.compare_llama({"model.kv_heads": 2}, LlamaForSequenceClassification, LlamaConfig, num_key_value_heads=2)

    def test_qwen2(self):
        self.compare_llama({"model.kv_heads": 3, "model.qkv_bias": "true"}, Qwen2ForSequenceClassification, Qwen2Config,
                           num_key_value_heads=3)

    def test_qwen3(self):
        self.compare_llama({"model.kv_heads": 3, "model.qk_norm": "true", "model.head_size": 16},
                           Qwen3ForSequenceClassification, Qwen3Config, num_key_value_heads=3, head_dim=16)


if __name__ == "__main__":
    unittest.main()
