"""Texts and pairs of texts with a class or a number: the sequences that transformers makes of them, and models that
learn to tell it."""
import json
import random

from support import FULL, ROOT, TINY, TestCase, reference, twobw, words

CONTEXT = 24


def vocabulary():
    """WordPiece of the letters, alone and inside a word, and of some words."""
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,:;()`'-_/"
    prose = (ROOT / "README.md").read_text().lower().split()
    common = sorted({word for word in prose if word.isalpha() and len(word) > 2 and prose.count(word) > 3})
    return ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *("##" + letter for letter in letters), *common]


class ClassificationTest(TestCase):
    def setUp(self):
        super().setUp()
        (self.folder / "tokens").mkdir()
        (self.folder / "tokens/vocab.txt").write_text("".join(token + "\n" for token in vocabulary()))
        generator = random.Random(3)
        prose = (ROOT / "README.md").read_text().split()
        self.rows = []
        for i in range(200):
            parts = [" ".join(generator.choices(prose, k=generator.choice((0, 1, 3, 8, 20)))) for _ in range(2)]
            self.rows.append((*parts, i % 3))
        self.settings = {**TINY, "model.family": "bert", "model.head": "classification", "model.num_labels": 3,
                         "model.vocab": len(vocabulary()), "model.context": CONTEXT,
                         "data.tokenizer": self.folder / "tokens", "data.text": "first"}

    def write_tsv(self):
        lines = ["first\tsecond\tclass\n", *(f"{a}\t{b}\t{label}\n" for a, b, label in self.rows)]
        (self.folder / "rows.tsv").write_text("".join(lines))
        return self.folder / "rows.tsv"

    def sequences(self, path, **settings):
        from safetensors.torch import load_file

        settings = {**self.settings, "data.validation": path, **{f"data.{key}": v for key, v in settings.items()}}
        reference("sequences", len(self.rows), self.folder / "out", *words(settings))
        return {name: tensor.long().tolist() for name, tensor in load_file(self.folder / "out").items()}

    def assert_equal_to_transformers(self, found, *texts):
        from transformers import BertTokenizerFast

        tokenizer = BertTokenizerFast.from_pretrained(self.folder / "tokens")
        expected = tokenizer(*texts, truncation=True, max_length=CONTEXT, padding="max_length")
        self.assertEqual(found["tokens"], expected["input_ids"])
        self.assertEqual(found["token_types"], expected["token_type_ids"])
        self.assertEqual(found["lengths"], [sum(mask) for mask in expected["attention_mask"]])
        self.assertEqual(found["labels"], [label for _, _, label in self.rows])
        lengths = set(found["lengths"])
        self.assertIn(CONTEXT, lengths)
        self.assertGreater(len(lengths), 5)

    def test_texts(self):
        found = self.sequences(self.write_tsv(), label="class")
        self.assert_equal_to_transformers(found, [a for a, _, _ in self.rows])

    def test_pairs(self):
        found = self.sequences(self.write_tsv(), label="class", pair="second")
        self.assert_equal_to_transformers(found, [a for a, _, _ in self.rows], [b for _, b, _ in self.rows])

    def test_named_classes_of_jsonl(self):
        names = ["no", "perhaps", "yes"]
        lines = [json.dumps({"first": a, "second": b, "label": names[label]}) + "\n" for a, b, label in self.rows]
        (self.folder / "rows.jsonl").write_text("".join(lines))
        found = self.sequences(self.folder / "rows.jsonl", pair="second", classes=f"[{', '.join(names)}]")
        self.assert_equal_to_transformers(found, [a for a, _, _ in self.rows], [b for _, b, _ in self.rows])

    def write_task(self):
        """Rows whose class stands in one word of them, and whose number is how often it does."""
        generator = random.Random(5)
        rows = ["text\tlabel\tnumber\n"]
        for i in range(256):
            count = 1 + i % 4
            parts = ["no" if i % 2 else "yes"] * count + generator.choices(["a", "b", "c"], k=generator.randrange(9))
            generator.shuffle(parts)
            rows.append(f"{' '.join(parts)}\t{parts.count('no') and 'no' or 'yes'}\t{count / 2}\n")
        (self.folder / "task.tsv").write_text("".join(rows))
        return {"data.train": self.folder / "task.tsv", "data.validation": self.folder / "task.tsv",
                "data.text": "text", "data.bucket": 4, "pipeline.schedule": "2bw", "pipeline.stages": 2,
                "pipeline.microbatch": 4, "pipeline.microbatches": 4, "train.updates": 60, "train.eval_every": 60,
                "train.eval_microbatches": 64, "optimizer.lr": 3e-3, "optimizer.warmup": 5}

    def test_models_learn_to_tell(self):
        task = self.write_task()
        classes = {"model.num_labels": 2, "data.classes": "[yes, no]"}
        numbers = {"model.head": "regression", "model.num_labels": 2, "data.label": "number"}
        as_bytes = {"model.family": "gpt", "data.tokenizer": "bytes", "model.vocab": 256, "model.context": 40}
        # Chance is log 2, and the variance of the numbers 5/16.
        tasks = (("classes", classes, 0.69), ("numbers", numbers, 0.31), ("bytes", {**classes, **as_bytes}, 0.69))
        for name, changes, chance in tasks if FULL else tasks[:1]:
            with self.subTest(name):
                settings = {**self.settings, **task, **changes}
                exact = twobw("verify", *words({**settings, "train.updates": 3, "train.eval_every": 3}))
                self.assertIn("equal to the serial oracle, bit for bit", exact.stdout, exact.stderr)
                run = self.train(settings, name=name)
                self.assertIn("task.tsv (256 rows)", run.process.stdout)
                self.assertLess(run.validations[-1]["validation_loss"], 0.7 * chance)
                names = json.loads((run.folder / "model/config.json").read_text())["id2label"]
                self.assertEqual(names, {"0": "LABEL_0"} if name == "numbers" else {"0": "yes", "1": "no"})

    def test_refusals(self):
        path = self.write_tsv()
        for changes, naming in (
                ({"data.label": "none"}, ["data.train is", "rows.tsv:1' has no column 'none'", "first second class"]),
                ({"data.tokenizer": "bytes", "data.pair": "second", "model.vocab": 256},
                 ["data.tokenizer 'bytes' has no [CLS] and [SEP]"]),
                ({"model.num_labels": 2}, ["model.num_labels is 2", "rows.tsv' has class 2", "at least 3"]),
                ({"model.padding": "false"}, ["model.padding is false", "rows.tsv' has sequences of 2 tokens"]),
                ({"model.head": "regression", "model.num_labels": 2, "data.label": "first"}, ["rows.tsv:", "a number"]),
                ({"model.vocab": 50}, ["model.vocab is 50", "data.tokenizer", f"{len(vocabulary())} tokens"]),
                ({"model.vocab": 255, "data.tokenizer": "bytes", "data.text": "class"}, ["model.vocab is 255", "256"]),
                ({"data.bucket": -1}, ["data.bucket is -1", "at least 0"])):
            settings = {**self.settings, "data.label": "class", "data.train": path, "data.validation": path,
                        "run_dir": self.folder / "run", **changes}
            process = twobw("train", *words(settings))
            self.assertEqual(process.returncode, 2, process.stdout)
            self.assertRegex(process.stderr, r"\Atwobw: [^\n]+\n\Z")
            for text in naming:
                self.assertIn(text, process.stderr)
