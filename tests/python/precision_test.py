"""Models in bf16 and fp16 against PyTorch on the same weights.

The exact result is that of a model in double on weights and nothing else rounded. Ours may be as far from it as
PyTorch's own model in 16 bits is, give or take: its roundings fall elsewhere.
"""
import os
import unittest

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # everything is made here, nothing is fetched

import torch
from safetensors.torch import load_file, save_file
from transformers import BertForMaskedLM, LlamaConfig, LlamaForCausalLM

import bert_test
import gpt
import llama_test
from support import TWO_CORES, TestCase, random_weights, reference, relative_error, slow, words

TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
GPT = {"model.layers": 2, "model.width": 48, "model.heads": 6, "model.vocab": 61, "model.context": 24,
       "model.tied": "false"}


class LossScaleTest(TestCase):
    """The loss scale of fp16, from outside."""

    SETTINGS = {"train.precision": "fp16", "pipeline.schedule": "2bw", "pipeline.stages": 2,
                "pipeline.split": "[6, 6]", "train.updates": 30, "devices": TWO_CORES}

    def test_every_line_of_the_metrics_has_it(self):
        run = self.train({**self.SETTINGS, "train.loss_scale": 1024, "train.loss_scale_window": 10})
        scales = [line["loss_scale"] for line in run.updates]
        self.assertEqual(scales, [1024] * 11 + [2048] * 10 + [4096] * 9)
        self.assertEqual(run.summary["skipped_updates"], 0)
        self.assertNotIn("loss_scale", self.train({**self.SETTINGS, "train.precision": "bf16"}, "other").updates[0])

    def test_overflows_are_not_an_alarm(self):
        run = self.train({**self.SETTINGS, "train.loss_scale": 2**24})
        skipped = [line for line in run.updates if line["skipped"]]
        self.assertGreater(len(skipped), 0)
        self.assertFalse(run.updates[-1]["skipped"])
        self.assertLess(run.updates[-1]["loss_scale"], 2**24)
        self.assertNotIn("skipped by all stages", run.process.stdout)
        self.assertIn("overflows at a loss scale of 16777216", (run.folder / "log.txt").read_text())


class PrecisionTest(TestCase):
    def weights_of(self, shape, dtype):
        """Numbers that the type has."""
        reference("initial", self.folder / "initial", *words(shape))
        weights = {name: tensor.to(dtype).float()
                   for name, tensor in random_weights(load_file(self.folder / "initial")).items()}
        save_file(weights, self.folder / "weights")
        return weights

    def ours(self, shape, precision, given):
        save_file({name: tensor.float() for name, tensor in given.items()}, self.folder / "input")
        reference("gradients", *(self.folder / name for name in ("weights", "input", "output")),
                  *words({**shape, "train.precision": precision}))
        return load_file(self.folder / "output")

    def assert_as_near(self, ours, theirs, exact):
        self.assertEqual(set(ours), set(exact))
        for name, tensor in exact.items():
            with self.subTest(tensor=name):
                limit = 2e-3 + 1.5 * relative_error(theirs[name], tensor)
                self.assertLess(limit, 0.1, "the limit itself says nothing")
                self.assertLess(relative_error(ours[name], tensor), limit)

    def test_gpt(self):
        generator = torch.Generator().manual_seed(11)
        tokens, targets = torch.randint(61, (2, 2, 17), generator=generator)
        for precision, dtype in TYPES.items():
            weights = self.weights_of(GPT, dtype)

            def results(dtype):
                leaves = {name: tensor.to(dtype).requires_grad_() for name, tensor in weights.items()}
                logits = gpt.logits(leaves, 6, tokens)
                loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).to(torch.promote_types(
                    dtype, torch.float)), targets.flatten())
                loss.backward()
                return {"logits": logits.detach(), "loss": loss.detach(),
                        **{"grad." + name: leaf.grad for name, leaf in leaves.items()}}

            with self.subTest(precision=precision):
                self.assert_as_near(self.ours(GPT, precision, {"tokens": tokens, "targets": targets}),
                                    results(dtype), results(torch.double))

    def compare(self, shape, given, model, names, run):
        """`model()` makes theirs, `run(model)` gives logits and loss, `names` are their names of a parameter."""
        for precision, dtype in TYPES.items():
            weights = self.weights_of(shape, dtype)

            def results(dtype):
                theirs = model().to(dtype)
                parameters = dict(theirs.named_parameters())
                with torch.no_grad():
                    for name, weight in weights.items():
                        parts = weight.split([parameters[each].shape[0] for each in names(name)])
                        for each, part in zip(names(name), parts):
                            parameters[each].copy_(part)
                logits, loss = run(theirs)
                loss.backward()
                found = {"logits": logits.detach(), "loss": loss.detach()}
                for name in weights:
                    found["grad." + name] = torch.cat([parameters[each].grad for each in names(name)])
                return found

            with self.subTest(precision=precision):
                self.assert_as_near(self.ours(shape, precision, given), results(dtype), results(torch.double))

    @slow
    def test_llama(self):
        generator = torch.Generator().manual_seed(11)
        tokens, targets = torch.randint(61, (2, 2, llama_test.LENGTH), generator=generator)

        def run(model):
            logits = model(tokens).logits
            wide = logits.to(torch.promote_types(logits.dtype, torch.float))
            return logits, torch.nn.functional.cross_entropy(wide.flatten(0, 1), targets.flatten())

        self.compare({**llama_test.SHAPE, "model.kv_heads": 2}, {"tokens": tokens, "targets": targets},
                     lambda: LlamaForCausalLM(llama_test.theirs(LlamaConfig, num_key_value_heads=2)),
                     llama_test.their_names, run)

    def test_bert(self):
        shape, lengths = {**bert_test.SMALL, "model.tied": "true"}, [17, 9, 5]
        tokens, types, real = bert_test.made_up(shape, lengths, 17)
        chosen = (torch.rand(tokens.shape, generator=torch.Generator().manual_seed(3)) < 0.3) & real
        targets = torch.randint(61, tokens.shape, generator=torch.Generator().manual_seed(4))
        targets = targets.masked_fill(~chosen, bert_test.IGNORED)

        def run(model):
            logits = model(tokens, attention_mask=real.long(), token_type_ids=types).logits
            wide = logits.to(torch.promote_types(logits.dtype, torch.float))
            return logits, torch.nn.functional.cross_entropy(wide.flatten(0, 1), targets.flatten(),
                                                             ignore_index=bert_test.IGNORED)

        given = {"tokens": tokens, "token_types": types, "targets": targets, "lengths": torch.tensor(lengths)}
        self.compare(shape, given, lambda: BertForMaskedLM(bert_test.theirs(shape, tie_word_embeddings=True)),
                     lambda name: bert_test.their_names(name, "cls.predictions"), run)


if __name__ == "__main__":
    unittest.main()
