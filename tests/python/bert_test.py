"""BERT against transformers on the same random weights, as gpt2_test.py does it: masked tokens, classes and numbers
of sequences, with padding and token types."""
import os
import re
import unittest

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # everything is made here, nothing is fetched

import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForMaskedLM, BertForPreTraining, BertForSequenceClassification

from support import TestCase, random_weights, reference, words

TOLERANCE = 1e-5
PAD, IGNORED = 0, -100

OUTSIDE = {
    "embedding.tokens": "bert.embeddings.word_embeddings.weight",
    "embedding.positions": "bert.embeddings.position_embeddings.weight",
    "embedding.types": "bert.embeddings.token_type_embeddings.weight",
}
PARTS = {
    "embedding.norm": ("bert.embeddings.LayerNorm",),
    "head.transform": ("cls.predictions.transform.dense",),
    "head.norm": ("cls.predictions.transform.LayerNorm",),
    "head.pooler": ("bert.pooler.dense",),
    "head.next_sentence": ("cls.seq_relationship",),
}
IN_BLOCK = {
    "attention.qkv": ("attention.self.query", "attention.self.key", "attention.self.value"),
    "attention.out": ("attention.output.dense",),
    "attention.norm": ("attention.output.LayerNorm",),
    "mlp.up": ("intermediate.dense",),
    "mlp.down": ("output.dense",),
    "mlp.norm": ("output.LayerNorm",),
}


def their_names(name, output):
    """Ours are theirs one after the other; `output` is what they call the last product."""
    if name in OUTSIDE:
        return [OUTSIDE[name]]
    part, kind = name.rsplit(".", 1)
    if part == "head":
        return [f"{output}.{kind}"]
    if part in PARTS:
        return [f"{theirs}.{kind}" for theirs in PARTS[part]]
    block, part = re.fullmatch(r"blocks\.(\d+)\.(.*)", part).groups()
    return [f"bert.encoder.layer.{block}.{theirs}.{kind}" for theirs in IN_BLOCK[part]]


# Three heads of 10; sequences shorter than the context; sizes that no vector length divides.
SMALL = {"model.family": "bert", "model.layers": 2, "model.width": 30, "model.heads": 3, "model.vocab": 61,
         "model.context": 24, "model.norm_eps": 1e-12}
WIDE = {"model.family": "bert", "model.layers": 3, "model.width": 64, "model.heads": 4, "model.vocab": 515,
        "model.context": 80, "model.hidden": 150, "model.token_types": 3, "model.norm_eps": 1e-6}
ODD = {**SMALL, "model.width": 35, "model.heads": 5, "model.hidden": 41, "model.token_types": 1}


def theirs(shape, **changes):
    """A configuration of theirs with the same shape."""
    return BertConfig(**{
        "vocab_size": shape["model.vocab"], "hidden_size": shape["model.width"],
        "num_hidden_layers": shape["model.layers"], "num_attention_heads": shape["model.heads"],
        "intermediate_size": shape.get("model.hidden", 4 * shape["model.width"]),
        "max_position_embeddings": shape["model.context"], "type_vocab_size": shape.get("model.token_types", 2),
        "layer_norm_eps": shape["model.norm_eps"], "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
        "pad_token_id": PAD, "attn_implementation": "eager", **changes})


def made_up(shape, lengths, length):
    """Tokens, none of them padding but behind the end of a sequence, their types, and what is no padding."""
    generator = torch.Generator().manual_seed(11)
    size = (len(lengths), length)
    real = torch.arange(length) < torch.tensor(lengths).unsqueeze(1)
    tokens = torch.randint(1, shape["model.vocab"], size, generator=generator) * real
    types = torch.randint(shape.get("model.token_types", 2), size, generator=generator) * real
    return tokens, types, real


class BertTest(TestCase):
    def compare(self, shape, model, lengths, length, labels, output):
        """`labels`: by the name that the reference program has for them."""
        tokens, types, real = made_up(shape, lengths, length)
        reference("initial", self.folder / "initial", *words(shape))
        weights = random_weights(load_file(self.folder / "initial"))
        save_file(weights, self.folder / "weights")
        given = {"tokens": tokens, "token_types": types, **labels}
        if shape.get("model.padding") != "false":
            given["lengths"] = torch.tensor(lengths)
        save_file({name: tensor.float() for name, tensor in given.items()}, self.folder / "input")
        reference("gradients", *(self.folder / name for name in ("weights", "input", "output")), *words(shape))
        ours = load_file(self.folder / "output")

        model = model.double()
        parameters = dict(model.named_parameters())
        names = {name: their_names(name, output) for name in weights}
        unused = {"cls.predictions.bias"} if output == "cls.predictions.decoder" else set()
        self.assertEqual({each for all_of in names.values() for each in all_of}, set(parameters) - unused)
        with torch.no_grad():
            for name, weight in weights.items():
                parts = weight.split([parameters[each].shape[0] for each in names[name]])
                for each, part in zip(names[name], parts):
                    parameters[each].copy_(part)
        if isinstance(model, BertForPreTraining):
            wanted = {"labels": labels["targets"], "next_sentence_label": labels["labels"]}
        else:
            (target,) = labels.values()
            wanted = {"labels": target}
        theirs = model(tokens, attention_mask=real.long(), token_type_ids=types, **wanted)
        theirs.loss.backward()

        logits = theirs.prediction_logits if isinstance(model, BertForPreTraining) else theirs.logits
        expected = {"logits": logits.detach(), "loss": theirs.loss.detach()}
        for name in weights:
            expected["grad." + name] = torch.cat([parameters[each].grad for each in names[name]])
        self.assert_near(ours, expected, TOLERANCE)

    def masked_lm(self, changes, lengths, length, tied=True, next_sentence=None):
        shape = {**changes, "model.tied": str(tied).lower()}
        tokens, _, real = made_up(shape, lengths, length)
        chosen = (torch.rand(tokens.shape, generator=torch.Generator().manual_seed(3)) < 0.3) & real
        targets = torch.randint(shape["model.vocab"], tokens.shape, generator=torch.Generator().manual_seed(4))
        labels = {"targets": targets.masked_fill(~chosen, IGNORED)}
        kind = BertForMaskedLM
        if next_sentence is not None:
            shape["model.next_sentence"], kind = "true", BertForPreTraining
            labels["labels"] = torch.tensor(next_sentence)
        self.compare(shape, kind(theirs(shape, tie_word_embeddings=tied)), lengths, length, labels,
                     "cls.predictions" if tied else "cls.predictions.decoder")

    def their_classifier(self, shape, outputs):
        return BertForSequenceClassification(theirs(shape, num_labels=outputs))

    def test_masked_lm(self):
        """The weight of the output is the token embedding's; its bias is its own."""
        self.masked_lm(SMALL, [17, 9, 1], 17)

    def test_masked_lm_untied(self):
        self.masked_lm(SMALL, [5, 17], 17, tied=False)

    def test_masked_lm_with_an_odd_number_of_heads_of_an_odd_size(self):
        self.masked_lm(ODD, [13, 7, 20], 20)

    def test_masked_lm_wide(self):
        self.masked_lm(WIDE, [80, 33], 80)

    def test_masked_lm_without_padding(self):
        self.masked_lm({**SMALL, "model.padding": "false"}, [24, 24], 24)

    def test_masked_lm_and_next_sentence(self):
        """The loss is the mean over the masked tokens plus the mean over the sequences that have a label."""
        for changes in (SMALL, WIDE, ODD):
            with self.subTest(**changes):
                self.masked_lm(changes, [17, 9, 1], 17, next_sentence=[1, 0, 0])
        self.masked_lm(SMALL, [17, 9, 4], 17, tied=False, next_sentence=[1, IGNORED, 0])

    def test_classification(self):
        for changes, labels in ((SMALL, 2), (WIDE, 5), (ODD, 3)):
            shape = {**changes, "model.head": "classification", "model.num_labels": labels}
            with self.subTest(**shape):
                self.compare(shape, self.their_classifier(shape, labels), [17, 4, 11, 1], 17,
                             {"labels": torch.tensor([1, 0, labels - 1, 1])}, "classifier")

    def test_classification_where_some_labels_do_not_count(self):
        shape = {**SMALL, "model.head": "classification", "model.num_labels": 3}
        self.compare(shape, self.their_classifier(shape, 3), [17, 4, 11], 17,
                     {"labels": torch.tensor([2, IGNORED, 0])}, "classifier")

    def test_regression(self):
        for changes in (SMALL, WIDE, ODD):
            shape = {**changes, "model.head": "regression"}
            with self.subTest(**shape):
                self.compare(shape, self.their_classifier(shape, 1), [17, 4, 11], 17,
                             {"values": torch.tensor([0.5, -3.25, 4.0]).double()}, "classifier")

    def test_values_that_are_no_numbers_do_not_count(self):
        """The loss and the gradients are those of the others alone."""
        shape = {**SMALL, "model.head": "regression"}
        tokens, types, _ = made_up(shape, [17, 4, 11], 17)
        reference("initial", self.folder / "initial", *words(shape))
        found = []
        for rows, values in ((slice(0, 3), [0.5, float("nan"), 4.0]), ([0, 2], [0.5, 4.0])):
            save_file({"tokens": tokens[rows].float(), "token_types": types[rows].float(),
                       "lengths": torch.tensor([17.0, 4, 11])[rows], "values": torch.tensor(values)},
                      self.folder / "input")
            reference("gradients", *(self.folder / name for name in ("initial", "input", "output")), *words(shape))
            found.append(load_file(self.folder / "output"))
        for name, expected in found[1].items():
            if name != "logits":
                self.assertLessEqual((found[0][name] - expected).norm(), 1e-6 * expected.norm() + 1e-12, name)


if __name__ == "__main__":
    unittest.main()
