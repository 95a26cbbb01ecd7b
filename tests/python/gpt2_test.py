"""The GPT model against transformers' GPT2LMHeadModel on the same random weights.

Agreement is norm-wise: ||ours - theirs|| / ||theirs|| over each whole tensor. Theirs runs in double, so
what is measured is the error of ours.
"""
import os
import re
import unittest

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # everything is made here, nothing is fetched

import torch
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel

from support import TestCase, packed, random_weights, reference, words

TOLERANCE = 1e-5

OUTSIDE = {
    "embedding.tokens": "transformer.wte.weight",
    "embedding.positions": "transformer.wpe.weight",
    "head.norm.weight": "transformer.ln_f.weight",
    "head.norm.bias": "transformer.ln_f.bias",
    "head.weight": "lm_head.weight",
}
IN_BLOCK = {
    "attention.norm": "ln_1",
    "attention.qkv": "attn.c_attn",
    "attention.out": "attn.c_proj",
    "mlp.norm": "ln_2",
    "mlp.up": "mlp.c_fc",
    "mlp.down": "mlp.c_proj",
}


def their_name(name):
    if name in OUTSIDE:
        return OUTSIDE[name]
    block, part, kind = re.fullmatch(r"blocks\.(\d+)\.(.*)\.(weight|bias)", name).groups()
    return f"transformer.h.{block}.{IN_BLOCK[part]}.{kind}"


def their_layout(name, tensor):
    """Their matrices of a block are stored [in, out], ours [out, in]."""
    return tensor.T if name.startswith("blocks.") and tensor.dim() == 2 else tensor


def their_model(shape):
    config = GPT2Config(
        vocab_size=shape["model.vocab"],
        n_positions=shape["model.context"],
        n_embd=shape["model.width"],
        n_layer=shape["model.layers"],
        n_head=shape["model.heads"],
        activation_function="gelu_new",
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=None,
        eos_token_id=None,
        tie_word_embeddings=shape["model.tied"] == "true",
        attn_implementation="eager",
    )
    return GPT2LMHeadModel(config).double()


class GPT2Test(TestCase):
    def compare(self, shape, batch, length, documents=None):
        """`documents`: the lengths of those in each sequence."""
        positions, apart = packed(documents) if documents else (None, {})
        reference("initial", self.folder / "initial", *words(shape))
        weights = random_weights(load_file(self.folder / "initial"))
        generator = torch.Generator().manual_seed(11)
        tokens, targets = torch.randint(shape["model.vocab"], (2, batch, length), generator=generator)
        save_file(weights, self.folder / "weights")
        given = {"tokens": tokens, "targets": targets, **({"positions": positions} if documents else {})}
        save_file({name: tensor.float() for name, tensor in given.items()}, self.folder / "input")
        reference("gradients", *(self.folder / name for name in ("weights", "input", "output")), *words(shape))
        ours = load_file(self.folder / "output")

        model = their_model(shape)
        parameters = dict(model.named_parameters())
        self.assertEqual({their_name(name) for name in weights}, set(parameters), "another set of parameters")
        with torch.no_grad():
            for name, weight in weights.items():
                parameters[their_name(name)].copy_(their_layout(name, weight))
        logits = model(tokens, **apart).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()

        expected = {"logits": logits.detach(), "loss": loss.detach()}
        for name in weights:
            expected["grad." + name] = their_layout(name, parameters[their_name(name)].grad)
        self.assert_near(ours, expected, TOLERANCE)

    # A vocabulary and widths that no vector length divides, and sequences shorter than the context.
    SMALL = {"model.layers": 2, "model.width": 30, "model.heads": 3, "model.vocab": 61, "model.context": 12}
    WIDE = {"model.layers": 3, "model.width": 128, "model.heads": 4, "model.vocab": 515, "model.context": 64}

    def test_small_tied(self):
        self.compare({**self.SMALL, "model.tied": "true"}, batch=3, length=7)

    def test_small_untied(self):
        self.compare({**self.SMALL, "model.tied": "false"}, batch=3, length=7)

    def test_documents_by_themselves(self):
        reset = {"model.tied": "true", "model.reset_documents": "true"}
        self.compare({**self.SMALL, **reset}, batch=3, length=7, documents=[[7], [1, 6], [3, 2, 2]])
        self.compare({**self.WIDE, **reset}, batch=2, length=64, documents=[[40, 24], [1] * 10 + [33, 21]])

    def test_wide_tied(self):
        self.compare({**self.WIDE, "model.tied": "true"}, batch=2, length=64)

    def test_wide_untied(self):
        self.compare({**self.WIDE, "model.tied": "false"}, batch=2, length=64)


if __name__ == "__main__":
    unittest.main()
