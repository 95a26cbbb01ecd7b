"""Runs of `twobw train` with BERT against a loop around transformers in double, from the same weights and batches:
synthetic and of token files, whose microbatches have different numbers of targets, also with next sentences."""
import math
import random

import torch
from safetensors.torch import load_file
from transformers import BertConfig, BertForMaskedLM, BertForPreTraining

from support import TINY, Run, TestCase, reference, relative_error, twobw, words

LOSS_TOLERANCE = 1e-5  # of each update's loss and gradient norm, relative
WEIGHT_TOLERANCE = 1e-4  # of each final tensor, ||ours - theirs|| / ||theirs||

SETTINGS = {
    **TINY,
    "pipeline.microbatches": 3,
    "pipeline.stages": 2,
    "optimizer.clip": 1.0,
    "optimizer.weight_decay": 0.2,
    "optimizer.warmup": 4,
    "train.updates": 20,
}


def learning_rate(t):
    lr, warmup = SETTINGS["optimizer.lr"], SETTINGS["optimizer.warmup"]
    if t < warmup:
        return lr * (t + 1) / warmup
    return lr * (1 + math.cos(math.pi * (t - warmup) / (SETTINGS["train.updates"] - warmup))) / 2


class BertTrainingTest(TestCase):
    def setUp(self):
        super().setUp()
        torch.set_num_threads(1)

    def their_model(self, settings):
        """A random model, saved in `source`."""
        torch.manual_seed(3)
        kind = BertForPreTraining if "model.next_sentence" in settings else BertForMaskedLM
        # With a padding token the embedding's gradient would omit it; here every token is one of the text's.
        model = kind(BertConfig(
            vocab_size=settings["model.vocab"], hidden_size=32, intermediate_size=128, num_hidden_layers=2,
            num_attention_heads=4, max_position_embeddings=settings["model.context"], hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0, pad_token_id=None, attn_implementation="eager"))
        model.save_pretrained(self.folder / "source")
        return model.double()

    def test_masked_lm_under_flush(self):
        self.follow(SETTINGS)

    def token_files(self, *options):
        """Settings for token files of a random text."""
        tokens, special = self.folder / "tokens", ("[PAD]", "[CLS]", "[SEP]", "[MASK]")
        chance, text = random.Random(3), self.folder / "text.txt"
        vocabulary = "a pipeline keeps two versions of its weights and no stage waits for others".split()
        sentences = [" ".join(chance.choices(vocabulary, k=chance.randint(4, 14))) + "." for _ in range(600)]
        text.write_text("\n\n".join(" ".join(sentences[k : k + 3]) for k in range(0, 600, 3)))
        for command in (
                ("tokenizer", "train", "--vocab", 300, *(f"--special={name}" for name in special), "--out", tokens),
                ("prepare", "--tokenizer", tokens, "--out", self.folder / "data", "--validation", 0, "--no-eot",
                 *options)):
            process = twobw(*command, text)
            self.assertEqual(process.returncode, 0, process.stderr)
        return {**SETTINGS, "model.vocab": 300, "data.train": self.folder / "data-train",
                "data.validation": self.folder / "data-train", "data.tokenizer": tokens}

    def test_next_sentence_on_token_files(self):
        batches = self.follow({**self.token_files("--split", "blank-lines"), "model.next_sentence": "true",
                               "model.context": 24})
        labels = torch.cat([batches[f"labels.{k}"] for k in range(60)])
        self.assertEqual(set(labels.tolist()), {0, 1})
        self.assertAlmostEqual(labels.double().mean().item(), 0.5, delta=0.15)

    def test_masked_lm_on_token_files(self):
        batches = self.follow(self.token_files())
        mask = 299  # special tokens are the last
        seen = torch.cat([batches[f"tokens.{k}"].flatten() for k in range(60)])
        asked = torch.cat([batches[f"targets.{k}"].flatten() for k in range(60)]) >= 0
        self.assertAlmostEqual(asked.double().mean().item(), 0.15 * 14 / 16, delta=0.03)
        self.assertAlmostEqual((seen[asked] == mask).double().mean().item(), 0.8, delta=0.1)
        self.assertFalse((seen[~asked] == mask).any())

    def follow(self, settings):
        """Compares a run with the loop; returns its batches."""
        m, updates = settings["pipeline.microbatches"], settings["train.updates"]
        model = self.their_model(settings)
        parameters = dict(model.named_parameters())
        of_folder = ("model.layers", "model.width", "model.heads", "model.vocab", "model.context")
        settings = {key: value for key, value in settings.items() if key not in of_folder}
        settings["model.from"] = self.folder / "source"
        reference("batches", m * updates, self.folder / "batches", *words(settings))
        batches = {name: tensor.long() for name, tensor in load_file(self.folder / "batches").items()}
        optimizer = torch.optim.AdamW(
            [{"params": [p for p in parameters.values() if p.dim() == 2], "weight_decay": 0.2},
             {"params": [p for p in parameters.values() if p.dim() != 2], "weight_decay": 0.0}],
            betas=(0.9, 0.95), eps=1e-8)
        losses, norms, counts = [], [], []
        for t in range(updates):
            of_update = [[batches.get(f"{name}.{k}") for name in
                          ("tokens", "token_types", "lengths", "labels", "targets")]
                         for k in range(t * m, (t + 1) * m)]
            counts.append([int((targets >= 0).sum()) for *_, targets in of_update])
            total = 0
            for tokens, types, lengths, labels, targets in of_update:
                real = torch.arange(tokens.shape[1]) < lengths.unsqueeze(1)
                found = model(tokens, attention_mask=real.long(), token_type_ids=types)
                logits = found.logits if labels is None else found.prediction_logits
                loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten().clamp_min(-1),
                                                         ignore_index=-1, reduction="sum") / sum(counts[-1])
                if labels is not None:  # every sequence has one
                    loss += torch.nn.functional.cross_entropy(found.seq_relationship_logits, labels) / m
                loss.backward()
                total += loss.item()
            losses.append(total)
            norms.append(torch.nn.utils.clip_grad_norm_(parameters.values(), settings["optimizer.clip"]).item())
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(t)
            optimizer.step()
            optimizer.zero_grad()
        self.assertTrue(any(len(set(of_update)) > 1 for of_update in counts), "all microbatches have the same weight")
        self.assertGreater(abs(losses[-1] / losses[0] - 1), 100 * LOSS_TOLERANCE, "nothing was learnt")

        folder = self.folder / "run"
        process = twobw("train", *words({**settings, "run_dir": folder}))
        self.assertEqual((process.returncode, process.stderr), (0, ""))
        run = Run(folder)
        self.assertEqual(len(run.updates), updates)
        for t, line in enumerate(run.updates):
            self.assertLess(abs(line["loss"] / losses[t] - 1), LOSS_TOLERANCE, f"loss of update {t}")
            self.assertLess(abs(line["grad_norm"] / norms[t] - 1), LOSS_TOLERANCE, f"norm of update {t}")
        weights = load_file(folder / "model/model.safetensors")
        self.assertEqual(set(weights), set(parameters))
        for name, ours in weights.items():
            if not name.endswith("key.bias"):  # its gradient is rounding alone: it shifts all scores of a query equally
                self.assertLess(relative_error(ours, parameters[name].detach()), WEIGHT_TOLERANCE, name)
        return batches
