"""The tokenizer in the folder of model.from, where data.tokenizer is not given."""
import os
import re
import shutil

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # everything is made here, nothing is fetched

import torch
from safetensors.torch import load_file
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel

from classification_test import vocabulary
from model_folders import TRAINING, FolderTestCase
from support import ROOT, twobw, words

TEXT = ROOT / "README.md"
SAVING = {"train.updates": 2, "checkpoint.every_updates": 2}


class ModelTokenizerTest(FolderTestCase):
    def decoder(self, vocab=300):
        torch.manual_seed(4)
        source = self.save(GPT2LMHeadModel(GPT2Config(vocab_size=vocab, n_positions=16, n_embd=32, n_layer=2, n_head=4,
                                                      bos_token_id=None, eos_token_id=None)))
        self.call("tokenizer", "train", "--vocab", 300, "--out", source, TEXT)
        return source

    def start(self, source, **settings):
        """The first arguments of a run from the folder."""
        run = self.folder / "run"
        return "train", *words({**TRAINING, **SAVING, "model.from": source, "run_dir": run, **settings})

    def tokenizer_of(self, run):
        return re.search(r"(?m)^  tokenizer: (\S+) ", (run / "config.yaml").read_text())[1]

    def test_token_files(self):
        source, run, data = self.decoder(), self.folder / "run", self.folder / "data"
        self.call("prepare", TEXT, "--tokenizer", source, "--out", data, "--validation", 0)
        said = self.call(*self.start(source), f"data.train={data}-train", f"data.validation={data}-train")
        self.assertIn(f"starting from the weights in {source}, with its tokenizer\n", said)
        self.assertEqual(self.tokenizer_of(run), str(source))
        for name in ("tokenizer.json", "vocab.json", "merges.txt"):
            self.assertEqual((run / "model" / name).read_bytes(), (source / name).read_bytes())
        # A resumed run does not need the folder.
        shutil.rmtree(source)
        self.call("train", f"resume={run}", "train.updates=4")
        self.assertEqual(self.tokenizer_of(run), str(source))
        self.assertTrue((run / "model" / "tokenizer.json").exists())

    def test_plain_text(self):
        source, run = self.decoder(), self.folder / "run"
        process = twobw(*self.start(source), f"data.train={TEXT}")
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertIn(f"tokenizing data.train '{TEXT}' ", process.stderr)
        self.assertIn(f"starting from the weights in {source}, with its tokenizer\n", process.stdout)
        shutil.rmtree(run)
        self.call("eval", source, f"data={TEXT}", "data.tokenizer=bytes")
        said = self.call(*self.start(source), f"data.train={TEXT}", "data.tokenizer=bytes")
        self.assertIn(f"starting from the weights in {source}\n", said)
        self.assertEqual(self.tokenizer_of(run), "bytes")
        # A resumed run keeps its tokenizer.
        self.call(*self.start(source), f"data.train={TEXT}", "resume=auto", "train.updates=4")
        self.assertEqual(self.tokenizer_of(run), "bytes")

    def test_a_tokenizer_that_does_not_fit_is_ignored(self):
        source = self.decoder(vocab=64)
        self.call(*self.start(source))
        self.assertEqual(self.tokenizer_of(self.folder / "run"), "bytes")

    def test_texts_with_a_class(self):
        source = self.save(BertForSequenceClassification(BertConfig(
            vocab_size=256, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
            num_attention_heads=4, max_position_embeddings=16)))
        (source / "vocab.txt").write_text("".join(token + "\n" for token in vocabulary()))
        rows = self.folder / "rows.tsv"
        rows.write_text("text\tlabel\n" + "".join(f"line {i} of it\t{i % 2}\n" for i in range(20)))
        settings = words({**TRAINING, "model.from": source, "data.train": rows, "data.validation": rows})
        for name, more in (("given", [f"data.tokenizer={source}"]), ("default", []),
                           ("bytes", ["data.tokenizer=bytes"])):
            self.call("batches", *settings, *more, "--out", self.folder / name)
        given, default, raw = (load_file(self.folder / name) for name in ("given", "default", "bytes"))
        self.assert_same_tensors(given, default)
        self.assertFalse(torch.equal(given["tokens.0.0"], raw["tokens.0.0"]))
