"""Llama, Qwen2 and Qwen3 against transformers on the same random weights, as gpt2_test.py does it."""
import os
import re
import unittest

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # everything is made here, nothing is fetched

import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

from support import TestCase, packed, random_weights, reference, words

TOLERANCE = 1e-5

OUTSIDE = {"embedding.tokens": "model.embed_tokens.weight", "head.norm.weight": "model.norm.weight",
           "head.weight": "lm_head.weight"}
IN_BLOCK = {
    "attention.norm": ("input_layernorm",),
    "attention.qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "attention.q_norm": ("self_attn.q_norm",),
    "attention.k_norm": ("self_attn.k_norm",),
    "attention.out": ("self_attn.o_proj",),
    "mlp.norm": ("post_attention_layernorm",),
    "mlp.gate_up": ("mlp.gate_proj", "mlp.up_proj"),
    "mlp.down": ("mlp.down_proj",),
}


def their_names(name):
    """Ours are theirs one after the other."""
    if name in OUTSIDE:
        return [OUTSIDE[name]]
    block, part, kind = re.fullmatch(r"blocks\.(\d+)\.(.*)\.(weight|bias)", name).groups()
    return [f"model.layers.{block}.{theirs}.{kind}" for theirs in IN_BLOCK[part]]


# Six heads of 8; sequences shorter than the context.
SHAPE = {"model.family": "llama", "model.layers": 2, "model.width": 48, "model.heads": 6, "model.vocab": 61,
         "model.context": 24, "model.hidden": 80, "model.tied": "false"}
LENGTH = 17


def theirs(config, rope=None, **changes):
    """A configuration of theirs with the same shape."""
    return config(**{"vocab_size": 61, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 2,
                     "num_attention_heads": 6, "num_key_value_heads": 6, "max_position_embeddings": 24,
                     "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "bos_token_id": None, "eos_token_id": None,
                     "attn_implementation": "eager", **changes,
                     "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, **(rope or {})}})


class LlamaTest(TestCase):
    def compare(self, changes, model, documents=None):
        """`documents`: the lengths of those in each of two sequences."""
        positions, apart = packed(documents) if documents else (None, {})
        shape = {**SHAPE, **changes}
        reference("initial", self.folder / "initial", *words(shape))
        weights = random_weights(load_file(self.folder / "initial"))
        generator = torch.Generator().manual_seed(11)
        tokens, targets = torch.randint(shape["model.vocab"], (2, 2, LENGTH), generator=generator)
        save_file(weights, self.folder / "weights")
        batch = {"tokens": tokens, "targets": targets, **({"positions": positions} if documents else {})}
        save_file({name: tensor.float() for name, tensor in batch.items()}, self.folder / "input")
        reference("gradients", *(self.folder / name for name in ("weights", "input", "output")), *words(shape))
        ours = load_file(self.folder / "output")

        model = model.double()
        parameters = dict(model.named_parameters())
        names = {name: their_names(name) for name in weights}
        self.assertEqual({each for all_of in names.values() for each in all_of}, set(parameters))
        with torch.no_grad():
            for name, weight in weights.items():
                parts = weight.split([parameters[each].shape[0] for each in names[name]])
                for each, part in zip(names[name], parts):
                    parameters[each].copy_(part)
        logits = model(tokens, **apart).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()

        expected = {"logits": logits.detach(), "loss": loss.detach()}
        for name in weights:
            expected["grad." + name] = torch.cat([parameters[each].grad for each in names[name]])
        self.assert_near(ours, expected, TOLERANCE)

    def test_llama(self):
        self.compare({}, LlamaForCausalLM(theirs(LlamaConfig)))

    def test_llama_tied_with_fewer_heads_of_keys(self):
        self.compare({"model.kv_heads": 2, "model.tied": "true", "model.rope_theta": 500000, "model.norm_eps": 1e-6},
                     LlamaForCausalLM(theirs(LlamaConfig, {"rope_theta": 500000.0}, num_key_value_heads=2,
                                             tie_word_embeddings=True, rms_norm_eps=1e-6)))

    def test_an_odd_number_of_heads_of_a_size_of_their_own(self):
        self.compare({"model.heads": 3, "model.kv_heads": 1, "model.head_size": 6},
                     LlamaForCausalLM(theirs(LlamaConfig, num_attention_heads=3, num_key_value_heads=1, head_dim=6)))

    def test_linear_scaling(self):
        self.compare({"model.rope_scaling": "linear", "model.rope_factor": 4},
                     LlamaForCausalLM(theirs(LlamaConfig, {"rope_type": "linear", "factor": 4.0})))

    def test_dynamic_scaling(self):
        """Of sequences longer than the original context, and of shorter ones."""
        for original in (10, 20):
            with self.subTest(original=original):
                model = LlamaForCausalLM(theirs(LlamaConfig, {"rope_type": "dynamic", "factor": 2.0},
                                                max_position_embeddings=original))
                self.compare({"model.rope_scaling": "dynamic", "model.rope_factor": 2,
                              "model.rope_original_context": original}, model)

    def test_llama3_scaling(self):
        rope = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 12}
        self.compare({"model.rope_scaling": "llama3", "model.rope_factor": 8, "model.rope_original_context": 12},
                     LlamaForCausalLM(theirs(LlamaConfig, rope)))

    DOCUMENTS = [[5, 2, 1, 9], [12, 5]]

    def test_documents_by_themselves(self):
        """With fewer heads of keys and scaled angles."""
        changes = {"model.reset_documents": "true", "model.kv_heads": 2}
        rope = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 12}
        self.compare({**changes, "model.rope_scaling": "llama3", "model.rope_factor": 8,
                      "model.rope_original_context": 12},
                     LlamaForCausalLM(theirs(LlamaConfig, rope, num_key_value_heads=2)), self.DOCUMENTS)
        self.compare({**changes, "model.rope_scaling": "linear", "model.rope_factor": 4, "model.qk_norm": "true"},
                     Qwen3ForCausalLM(theirs(Qwen3Config, {"rope_type": "linear", "factor": 4.0},
                                             num_key_value_heads=2, head_dim=8)), self.DOCUMENTS)

    def test_qwen2(self):
        self.compare({"model.kv_heads": 3, "model.qkv_bias": "true"},
                     Qwen2ForCausalLM(theirs(Qwen2Config, num_key_value_heads=3)))

    def test_qwen3_tied_with_heads_of_a_size_of_their_own(self):
        self.compare({"model.kv_heads": 3, "model.qk_norm": "true", "model.head_size": 16, "model.tied": "true"},
                     Qwen3ForCausalLM(theirs(Qwen3Config, num_key_value_heads=3, head_dim=16,
                                             tie_word_embeddings=True)))

    def test_qwen3_with_heads_that_do_not_divide_the_width(self):
        self.compare({"model.heads": 5, "model.kv_heads": 5, "model.qk_norm": "true", "model.head_size": 10},
                     Qwen3ForCausalLM(theirs(Qwen3Config, num_attention_heads=5, num_key_value_heads=5, head_dim=10)))


if __name__ == "__main__":
    unittest.main()
