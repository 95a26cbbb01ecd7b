"""twobw eval against formulas in numpy and the logits of transformers; the same numbers over any number of stages."""
import json
import os
import random

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # everything is made here, nothing is fetched

import numpy
import torch
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel

from model_folders import FolderTestCase
from support import FULL, ROOT, TINY, Run, twobw, words

CONTEXT = 16
TOLERANCE = 1e-5
BERT = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 40,
        "max_position_embeddings": CONTEXT}
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz"]


def matthews(truths, told):
    """Of the one-hot matrices' covariances, which is another way to write it."""
    classes = numpy.arange(max(truths.max(), told.max()) + 1)
    x, y = ((values[:, None] == classes).astype(float) for values in (told, truths))
    covariance = lambda a, b: sum(numpy.cov(a[:, k], b[:, k], bias=True)[0, 1] for k in classes)
    spread = covariance(x, x) * covariance(y, y)
    return covariance(x, y) / numpy.sqrt(spread) if spread > 0 else 0.0


def f1(truths, told, label):
    precision = (truths[told == label] == label).mean() if (told == label).any() else 0.0
    recall = (told[truths == label] == label).mean() if (truths == label).any() else 0.0
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def ranks(values):
    return numpy.array([(values < value).sum() + ((values == value).sum() + 1) / 2 for value in values])


class EvalTest(FolderTestCase):
    def eval(self, folder, *settings, stages=(3,)):
        """Over these numbers of stages: the same bits."""
        lines = {self.call("eval", folder, "--json", *settings, f"pipeline.stages={count}") for count in stages}
        self.assertEqual(len(lines), 1)
        return json.loads(lines.pop())

    def assert_close(self, found, expected):
        for key, value in expected.items():
            self.assertLess(abs(found[key] - value), TOLERANCE * max(1, abs(value)), key)

    def test_a_language_model(self):
        torch.manual_seed(2)
        model = GPT2LMHeadModel(GPT2Config(vocab_size=256, n_positions=CONTEXT, n_embd=30, n_layer=2, n_head=3,
                                           bos_token_id=None, eos_token_id=None))
        folder = self.save(model)
        text = (ROOT / "README.md").read_bytes()[: 7 * CONTEXT + 9]
        (self.folder / "text.txt").write_bytes(text)
        found = self.eval(folder, f"data={self.folder}/text.txt", "data.tokenizer=bytes", "pipeline.microbatch=3",
                          stages=(1, 3))
        ids, nats = torch.tensor(list(text)), 0.0
        for i in range(7):
            window = ids[i * CONTEXT: (i + 1) * CONTEXT + 1]
            with torch.no_grad():
                logits = model.double()(window[None, :-1]).logits[0]
            nats += torch.nn.functional.cross_entropy(logits, window[1:], reduction="sum").item()
        loss = nats / (7 * CONTEXT)
        self.assertEqual((found["sequences"], found["tokens"]), (7, 7 * CONTEXT))
        self.assert_close(found, {"loss": loss, "perplexity": numpy.exp(loss), "bits_per_byte": loss / numpy.log(2)})
        # Without a tokenizer nobody knows how many bytes a token has.
        unknown = self.eval(folder, f"data={self.folder}/text.txt", "pipeline.microbatch=3")
        self.assertIsNone(unknown["bits_per_byte"])
        self.assertIn("bits per byte  unknown", self.call("eval", folder, f"data={self.folder}/text.txt"))

    def test_rates_of_dropout_that_differ(self):
        """Nothing is dropped here."""
        source = self.save(BertForMaskedLM(BertConfig(vocab_size=64, **BERT)))
        lines = self.call("eval", source, "data=synthetic", "--json")
        config = json.loads((source / "config.json").read_text())
        (source / "config.json").write_text(json.dumps({**config, "classifier_dropout": 0.2}))
        self.assertEqual(self.call("eval", source, "data=synthetic", "--json"), lines)
        self.call("export", source, self.folder / "out")
        self.assertIn("model.dropout must be set", self.refused("train", f"model.from={source}"))

    def test_bytes_of_tokens(self):
        """A token has as many bytes as its text."""
        tokens, data = self.folder / "tokens", self.folder / "data"
        self.call("tokenizer", "train", "--vocab", 300, "--out", tokens, ROOT / "README.md")
        self.call("prepare", ROOT / "README.md", "--tokenizer", tokens, "--out", data, "--validation", 0)
        run = self.folder / "run"
        self.call("train", *words({**TINY, "model.vocab": 300, "data.tokenizer": tokens, "run_dir": run,
                                   "train.updates": 2}))
        found = self.eval(run, f"data={data}-train")
        from transformers import AutoTokenizer

        ids = AutoTokenizer.from_pretrained(tokens)((ROOT / "README.md").read_text())["input_ids"]
        windows = (len(ids) - 1 + 1) // CONTEXT  # the end of the document is a token too
        pieces = AutoTokenizer.from_pretrained(tokens).convert_ids_to_tokens(ids[1: windows * CONTEXT + 1])
        size = sum(len(piece) for piece in pieces)  # byte-level: a character of a piece is a byte
        self.assertEqual(found["sequences"], windows)
        nats = found["loss"] * found["tokens"]
        self.assertLess(abs(found["bits_per_byte"] / (nats / numpy.log(2) / size) - 1), 0.01)

    def write_rows(self, label_of):
        generator = random.Random(4)
        rows = ["text\tlabel\n"]
        self.texts, self.truths = [], []
        for _ in range(53):
            text = " ".join(generator.choices(WORDS[5:], k=generator.randrange(1, 20)))
            self.texts.append(text)
            self.truths.append(label_of(generator))
            rows.append(f"{text}\t{self.truths[-1]}\n")
        (self.folder / "rows.tsv").write_text("".join(rows))
        return f"data={self.folder}/rows.tsv"

    def classifier(self, labels):
        torch.manual_seed(5)
        config = BertConfig(**BERT, vocab_size=len(WORDS), num_labels=labels)
        folder = self.save(BertForSequenceClassification(config), f"labels{labels}")
        (folder / "vocab.txt").write_text("".join(word + "\n" for word in WORDS))
        return folder

    def told(self, folder):
        """Logits of every text by transformers, in double."""
        from transformers import BertTokenizerFast

        model = BertForSequenceClassification.from_pretrained(folder).double().eval()
        tokenizer = BertTokenizerFast.from_pretrained(folder)
        batch = tokenizer(self.texts, truncation=True, max_length=CONTEXT, padding=True, return_tensors="pt")
        with torch.no_grad():
            return model(**batch).logits.numpy()

    def test_classification(self):
        for labels in (2, 4):
            with self.subTest(labels=labels):
                folder = self.classifier(labels)
                found = self.eval(folder, self.write_rows(lambda generator: generator.randrange(labels)), stages=(1, 2))
                logits, truths = self.told(folder), numpy.array(self.truths)
                told = logits.argmax(1)
                chances = numpy.exp(logits) / numpy.exp(logits).sum(1, keepdims=True)
                present = [label for label in range(labels) if label in truths or label in told]
                scores = [f1(truths, told, label) for label in present]
                self.assertEqual(found["sequences"], len(truths))
                self.assert_close(found, {
                    "loss": -numpy.log(chances[numpy.arange(len(truths)), truths]).mean(),
                    "accuracy": (told == truths).mean(),
                    "f1": f1(truths, told, 1) if labels == 2 else numpy.mean(scores),
                    "matthews": matthews(truths, told)})

    def test_regression(self):
        folder = self.classifier(1)
        found = self.eval(folder, self.write_rows(lambda generator: generator.choice((0.25, 0.5, 1, 2))))
        told, truths = self.told(folder)[:, 0], numpy.array(self.truths)
        self.assert_close(found, {"loss": ((told - truths) ** 2).mean(),
                                  "pearson": numpy.corrcoef(told, truths)[0, 1],
                                  "spearman": numpy.corrcoef(ranks(told), ranks(truths))[0, 1]})

    def test_masked_tokens(self):
        """Perplexity is that of the loss, and few tokens count."""
        torch.manual_seed(6)
        folder = self.save(BertForMaskedLM(BertConfig(**BERT, vocab_size=len(WORDS))))
        (folder / "vocab.txt").write_text("".join(word + "\n" for word in WORDS))
        (self.folder / "text.txt").write_text("a b c d e f g h " * 60)
        self.call("prepare", self.folder / "text.txt", "--tokenizer", folder, "--out", self.folder / "data",
                  "--no-eot", "--validation", 0)
        found = self.eval(folder, f"data={self.folder}/data-train")
        self.assert_close(found, {"perplexity": numpy.exp(found["loss"])})
        self.assertLess(found["tokens"], 0.3 * found["sequences"] * CONTEXT)
        self.assertGreater(found["tokens"], 0)

    def test_a_run_and_its_checkpoint(self):
        run = self.folder / "run"
        self.call("train", *words({**TINY, "run_dir": run, "train.updates": 4, "train.eval_every": 4,
                                   "checkpoint.every_updates": 2}))
        found = self.eval(run)
        last = Run(run).validations[-1]
        self.assertLess(abs(found["loss"] / last["validation_loss"] - 1), TOLERANCE)
        older = sorted((run / "checkpoints").glob("update-*"))[0]
        self.assertNotEqual(self.eval(older, "data=synthetic")["loss"], found["loss"])

    def test_what_training_evaluates(self):
        """Of fewer sequences than that all, each once; by default eval repeats the loss of the run."""
        text = self.folder / "text"
        for windows, trained in ((9, 4), (3, 3)):
            with self.subTest(windows=windows):
                text.write_bytes(bytes(7 * i * i % 61 for i in range(windows * CONTEXT + 5)))
                run = self.folder / f"run{windows}"
                self.call("train", *words({**TINY, "run_dir": run, "data.validation": text, "train.eval_every": 6}))
                loss = Run(run).summary["validation_loss"]
                found = self.eval(run)
                self.assert_close(found, {"loss": loss})
                self.assertEqual((found["sequences"], found["of_sequences"]), (trained, windows))
                if windows == 3 and not FULL:
                    continue
                self.assert_close(self.eval(run, "pipeline.microbatch=3"), {"loss": loss})
                for whole in (self.eval(run, "--all"), self.eval(run, f"data={text}")):
                    self.assertEqual((whole["sequences"], whole["of_sequences"]), (windows, windows))
                said = "4 of 9, the sample of training; --all evaluates every one" if windows == 9 else "3"
                self.assertIn(f"\n  sequences      {said}\n", self.call("eval", run))
                self.assertIn(f"\n  sequences      {windows}\n", self.call("eval", run, "--all"))

    def test_weights_that_are_not_finite(self):
        torch.manual_seed(2)
        decoder = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=CONTEXT, n_embd=30, n_layer=1, n_head=3,
                                             bos_token_id=None, eos_token_id=None))
        torch.nn.init.constant_(decoder.transformer.ln_f.weight, float("nan"))
        folder = self.save(decoder)
        for arguments in ([], ["--json"]):
            process = twobw("eval", folder, "data=synthetic", *arguments)
            self.assertEqual(process.returncode, 1)
            self.assertRegex(process.stderr, rf"\Atwobw: the loss of '{folder}' is not finite[^\n]+\n\Z")
        self.assertIsNone(json.loads(process.stdout)["loss"])

    def test_refusals(self):
        folder = self.classifier(2)
        data = self.write_rows(lambda generator: generator.randrange(3))
        message = self.refused("eval", folder, data)
        self.assertIn("model.num_labels is 2", message)
        self.assertIn("has class 2", message)
        data = self.write_rows(lambda generator: generator.randrange(2))
        for arguments, naming in (
                ([], ["data=FILE"]),
                (["data=nowhere.tsv"], ["nowhere.tsv"]),
                ([data, "nonsense"], ["'nonsense' is not a setting"])):
            message = self.refused("eval", folder, *arguments)
            for text in naming:
                self.assertIn(text, message)
        (folder / "vocab.txt").unlink()
        self.assertIn("has no tokenizer", self.refused("eval", folder, data))
        bare = self.folder / "bare"
        BertForSequenceClassification(BertConfig(**BERT, vocab_size=len(WORDS))).bert.save_pretrained(bare)
        message = self.refused("eval", bare, data, "model.head=classification", "model.num_labels=3",
                               f"data.tokenizer={self.folder}")
        self.assertIn("no weights for the model's head", message)
        self.assertIn("nowhere", self.refused("eval", "nowhere", "data=synthetic"))
