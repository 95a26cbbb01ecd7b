"""Every family against transformers on the same random weights, read from a folder as model.from reads it.

Logits, loss and all gradients agree norm-wise: ||ours - theirs|| / ||theirs|| over each whole tensor. Theirs runs in
double, so the error is ours. In 16 bits ours may be as far from the exact result as PyTorch's own model is.
"""
import copy
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # everything is made here, nothing is fetched

import torch
from safetensors.torch import load_file, save_file
from transformers import (BertConfig, BertForMaskedLM, BertForPreTraining, BertForSequenceClassification, GPT2Config,
                          GPT2ForSequenceClassification, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM,
                          LlamaForSequenceClassification, Qwen2Config, Qwen2ForCausalLM, Qwen2ForSequenceClassification,
                          Qwen3Config, Qwen3ForCausalLM, Qwen3ForSequenceClassification)

from model_folders import make_biases_matter
from support import TestCase, reference, relative_error, words

TOLERANCE = 1e-5
IGNORED = -100
EAGER = {"attn_implementation": "eager"}

# Sizes that no vector length divides, and sequences shorter than the context.
GPT2 = {"vocab_size": 61, "n_positions": 24, "n_embd": 30, "n_layer": 2, "n_head": 3, "activation_function": "gelu_new",
        "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": None, "eos_token_id": None, **EAGER}
GPT2_WIDE = {**GPT2, "vocab_size": 515, "n_positions": 64, "n_embd": 128, "n_layer": 3, "n_head": 4}
LLAMA = {"vocab_size": 61, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 2, "num_attention_heads": 6,
         "num_key_value_heads": 6, "max_position_embeddings": 24, "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
         "bos_token_id": None, "eos_token_id": None, **EAGER}
BERT = {"vocab_size": 61, "hidden_size": 30, "intermediate_size": 120, "num_hidden_layers": 2, "num_attention_heads": 3,
        "max_position_embeddings": 24, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "pad_token_id": 0,
        **EAGER}
BERT_WIDE = {**BERT, "vocab_size": 515, "hidden_size": 64, "intermediate_size": 150, "num_hidden_layers": 3,
             "num_attention_heads": 4, "max_position_embeddings": 80, "type_vocab_size": 3, "layer_norm_eps": 1e-6}
BERT_ODD = {**BERT, "hidden_size": 35, "intermediate_size": 41, "num_attention_heads": 5, "type_vocab_size": 1}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 12}


def rope(**changes):
    return {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, **changes}}


def draw(most, shape, seed, least=0):
    return torch.randint(least, most, shape, generator=torch.Generator().manual_seed(seed))


def cross_entropy(logits, targets):
    wide = logits.to(torch.promote_types(logits.dtype, torch.float))
    return torch.nn.functional.cross_entropy(wide.flatten(0, -2), targets.flatten(), ignore_index=IGNORED)


def padded(config, lengths, length):
    """Tokens that are zero only behind the end of their sequence, and which of them are real."""
    real = torch.arange(length) < torch.tensor(lengths).unsqueeze(1)
    return draw(config.vocab_size, real.shape, 11, least=1) * real, real


def packed(rows):
    """Sequences of documents of these lengths: the position of every token, and the inputs that make transformers
    compute each document by itself."""
    positions = torch.stack([torch.cat([torch.arange(length) for length in row]) for row in rows])
    seen = torch.stack([torch.block_diag(*(torch.ones(length, length) for length in row)) for row in rows]).tril()
    mask = torch.zeros(seen.shape, dtype=torch.double).masked_fill(seen == 0, torch.finfo(torch.double).min)
    return positions, {"attention_mask": mask.unsqueeze(1), "position_ids": positions}


def results(model, dtype, tokens, loss_of, inputs):
    """Logits, loss and gradients of a copy of their model."""
    model = copy.deepcopy(model).to(dtype)
    output = model(tokens, **inputs)
    loss = loss_of(output)
    loss.backward()
    logits = output.prediction_logits if isinstance(model, BertForPreTraining) else output.logits
    return {"logits": logits.detach(), "loss": loss.detach(),
            **{"grad." + name: each.grad for name, each in model.named_parameters() if each.grad is not None}}


def without_key_bias(tensors):
    """BERT's key bias shifts all scores of a query equally, so its gradient is rounding alone."""
    return {name: tensor for name, tensor in tensors.items() if not name.endswith("self.key.bias")}


class FamiliesTest(TestCase):
    def compare(self, model, given, loss_of, inputs, settings=None, dtype=None):
        """`given`: the batch by our names. `inputs`: those of their model other than the tokens."""
        torch.manual_seed(5)
        model = make_biases_matter(model)
        if dtype:  # weights that the type has
            model = model.to(dtype).float()
        source = self.folder / "source"
        model.save_pretrained(source)
        save_file({name: tensor.float() for name, tensor in given.items()}, self.folder / "input")
        precision = {"train.precision": {torch.bfloat16: "bf16", torch.float16: "fp16"}[dtype]} if dtype else {}
        reference("gradients", source, self.folder / "input", self.folder / "output",
                  *words({"model.from": source, **(settings or {}), **precision}))
        ours = without_key_bias(load_file(self.folder / "output"))
        exact = without_key_bias(results(model, torch.double, given["tokens"], loss_of, inputs))
        if not dtype:
            return self.assert_near(ours, exact, TOLERANCE)
        rounded = results(model, dtype, given["tokens"], loss_of, inputs)
        self.assertEqual(set(ours), set(exact))
        for name, tensor in exact.items():
            with self.subTest(tensor=name):
                limit = 2e-3 + 1.5 * relative_error(rounded[name], tensor)
                self.assertLess(limit, 0.1, "the limit accepts anything")
                self.assertLess(relative_error(ours[name], tensor), limit)

    def causal(self, model, documents=None, length=17, settings=None, **options):
        """`documents`: the lengths of those in each of two sequences."""
        tokens, targets = draw(model.config.vocab_size, (2, 2, length), 11)
        given = {"tokens": tokens, "targets": targets}
        inputs, settings = {}, settings or {}
        if documents:
            given["positions"], inputs = packed(documents)
            settings = {"model.reset_documents": "true"}
        self.compare(model, given, lambda output: cross_entropy(output.logits, targets), inputs, settings, **options)

    def masked(self, model, lengths, length, next_sentence=None, settings=None, **options):
        tokens, real = padded(model.config, lengths, length)
        types = draw(model.config.type_vocab_size, tokens.shape, 12) * real
        chosen = (torch.rand(tokens.shape, generator=torch.Generator().manual_seed(3)) < 0.3) & real
        targets = draw(model.config.vocab_size, tokens.shape, 4).masked_fill(~chosen, IGNORED)
        given = {"tokens": tokens, "token_types": types, "targets": targets}
        settings = settings or {}
        if "model.padding" not in settings:
            given["lengths"] = torch.tensor(lengths)
        if next_sentence:
            given["labels"] = torch.tensor(next_sentence)
            settings = {"model.next_sentence": "true"}

        def loss_of(output):
            if not next_sentence:
                return cross_entropy(output.logits, targets)
            return (cross_entropy(output.prediction_logits, targets)
                    + cross_entropy(output.seq_relationship_logits, given["labels"]))

        self.compare(model, given, loss_of, {"attention_mask": real.long(), "token_type_ids": types}, settings, **options)

    def sequences(self, kind, config, labels=None, values=None, **shape):
        """A class or a number for each of four sequences. Their decoders end a sequence at its padding."""
        outputs = {"num_labels": 3} if labels else {"num_labels": 1, "problem_type": "regression"}
        model = kind(config(**{**shape, "pad_token_id": 0, **outputs}))
        lengths = [12, 3, 7, 1]
        tokens, real = padded(model.config, lengths, 12)
        given, inputs = {"tokens": tokens, "lengths": torch.tensor(lengths)}, {}
        if kind is BertForSequenceClassification:
            given["token_types"] = types = draw(model.config.type_vocab_size, tokens.shape, 12) * real
            inputs = {"attention_mask": real.long(), "token_type_ids": types}
        if labels:
            given["labels"] = wanted = torch.tensor(labels)
            return self.compare(model, given, lambda output: cross_entropy(output.logits, wanted), inputs)
        given["values"] = wanted = torch.tensor(values).double()
        return self.compare(model, given, lambda output: (output.logits.squeeze(1) - wanted).square().mean(), inputs)

    def test_gpt2(self):
        self.causal(GPT2LMHeadModel(GPT2Config(**GPT2)))
        self.causal(GPT2LMHeadModel(GPT2Config(**GPT2, tie_word_embeddings=False)), length=7)
        self.causal(GPT2LMHeadModel(GPT2Config(**GPT2_WIDE)), length=64)

    def test_gpt2_documents(self):
        self.causal(GPT2LMHeadModel(GPT2Config(**GPT2)), [[1, 16], [3, 2, 12]])
        self.causal(GPT2LMHeadModel(GPT2Config(**GPT2_WIDE)), [[40, 24], [1] * 10 + [33, 21]], length=64)

    def test_llama(self):
        self.causal(LlamaForCausalLM(LlamaConfig(**LLAMA, **rope())))
        tied = {**LLAMA, "num_key_value_heads": 2, "tie_word_embeddings": True, "rms_norm_eps": 1e-6}
        self.causal(LlamaForCausalLM(LlamaConfig(**tied, **rope(rope_theta=500000.0))))
        odd = {**LLAMA, "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 6}
        self.causal(LlamaForCausalLM(LlamaConfig(**odd, **rope())))

    def test_rotary_scaling(self):
        self.causal(LlamaForCausalLM(LlamaConfig(**LLAMA, **rope(rope_type="linear", factor=4.0))))
        self.causal(LlamaForCausalLM(LlamaConfig(**LLAMA, **rope(**LLAMA3))))
        for original in (10, 20):  # shorter and longer than the sequences
            dynamic = {**LLAMA, "max_position_embeddings": original}
            model = LlamaForCausalLM(LlamaConfig(**dynamic, **rope(rope_type="dynamic", factor=2.0)))
            self.causal(model)

    def test_rotary_documents(self):
        documents = [[5, 2, 1, 9], [12, 5]]
        few = {**LLAMA, "num_key_value_heads": 2}
        self.causal(LlamaForCausalLM(LlamaConfig(**few, **rope(**LLAMA3))), documents)
        self.causal(Qwen3ForCausalLM(Qwen3Config(**few, head_dim=8, **rope(rope_type="linear", factor=4.0))), documents)

    def test_qwen(self):
        few = {**LLAMA, "num_key_value_heads": 3}
        self.causal(Qwen2ForCausalLM(Qwen2Config(**few, **rope())))
        tied = {**few, "tie_word_embeddings": True}
        self.causal(Qwen3ForCausalLM(Qwen3Config(**tied, head_dim=16, **rope())))
        odd = {**LLAMA, "num_attention_heads": 5, "num_key_value_heads": 5}  # heads that do not divide the width
        self.causal(Qwen3ForCausalLM(Qwen3Config(**odd, head_dim=10, **rope())))

    def test_bert_masked_tokens(self):
        """The weight of the output is the token embedding's unless it is untied; its bias is its own."""
        self.masked(BertForMaskedLM(BertConfig(**BERT)), [17, 9, 1], 17)
        self.masked(BertForMaskedLM(BertConfig(**BERT, tie_word_embeddings=False)), [5, 17], 17)
        self.masked(BertForMaskedLM(BertConfig(**BERT_ODD)), [13, 7, 20], 20)
        self.masked(BertForMaskedLM(BertConfig(**BERT_WIDE)), [80, 33], 80)
        self.masked(BertForMaskedLM(BertConfig(**BERT)), [24, 24], 24, settings={"model.padding": "false"})

    def test_bert_next_sentence(self):
        """The loss is the mean over masked tokens plus the mean over sequences with a label."""
        self.masked(BertForPreTraining(BertConfig(**BERT_WIDE)), [17, 9, 1], 17, next_sentence=[1, 0, 0])
        untied = BertConfig(**BERT_ODD, tie_word_embeddings=False)
        self.masked(BertForPreTraining(untied), [17, 9, 4], 17, next_sentence=[1, IGNORED, 0])

    def test_classes_of_sequences(self):
        self.sequences(BertForSequenceClassification, BertConfig, [1, 0, 2, 1], **BERT_ODD)
        self.sequences(BertForSequenceClassification, BertConfig, [2, IGNORED, 0, 1], **BERT)
        self.sequences(GPT2ForSequenceClassification, GPT2Config, [2, 0, 1, 1], **GPT2)
        few = {**LLAMA, "num_key_value_heads": 3}
        self.sequences(Qwen2ForSequenceClassification, Qwen2Config, [2, 0, 1, 1], **few, **rope())

    def test_values_of_sequences(self):
        values = [0.5, -2.0, 3.25, 1.0]
        self.sequences(BertForSequenceClassification, BertConfig, values=values, **BERT_WIDE)
        few = {**LLAMA, "num_key_value_heads": 2}
        self.sequences(LlamaForSequenceClassification, LlamaConfig, values=values, **few, **rope())
        self.sequences(Qwen3ForSequenceClassification, Qwen3Config, values=values, **few, head_dim=16, **rope())

    def test_sixteen_bits(self):
        for dtype in (torch.bfloat16, torch.float16):
            with self.subTest(dtype=dtype):
                self.causal(GPT2LMHeadModel(GPT2Config(**GPT2, tie_word_embeddings=False)), dtype=dtype)
                few = {**LLAMA, "num_key_value_heads": 2}
                self.causal(LlamaForCausalLM(LlamaConfig(**few, **rope())), dtype=dtype)
                self.masked(BertForMaskedLM(BertConfig(**BERT)), [17, 9, 5], 17, dtype=dtype)
