"""twobw generate against transformers: greedy text token for token, over any number of stages; and what else it
promises."""
import json
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # everything is made here, nothing is fetched

import torch
from transformers import (GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM,
                          Qwen3Config, Qwen3ForCausalLM)

from model_folders import FolderTestCase
from support import FULL, ROOT, TINY, slow, twobw, words

CONTEXT = 40
GPT2 = {"vocab_size": 97, "n_positions": CONTEXT, "n_embd": 30, "n_layer": 2, "n_head": 3, "bos_token_id": None,
        "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
LLAMA = {"vocab_size": 97, "hidden_size": 36, "intermediate_size": 50, "num_hidden_layers": 3,
         "num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": CONTEXT,
         "tie_word_embeddings": False, "bos_token_id": None}
ROPE = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8}
PROMPTS = [[3], [5, 9, 11, 90, 2], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]]


def models(eos):
    """A random model of every kind, by name, whose text ends at the token `eos`."""
    torch.manual_seed(11)
    yield "gpt2", GPT2LMHeadModel(GPT2Config(**GPT2, eos_token_id=eos))
    yield "llama", LlamaForCausalLM(LlamaConfig(**LLAMA, eos_token_id=eos))
    odd = {**LLAMA, "num_attention_heads": 5, "num_key_value_heads": 5, "hidden_size": 40, "head_dim": 8,
           "tie_word_embeddings": True, "rope_parameters": dict(ROPE)}
    yield "llama scaled", LlamaForCausalLM(LlamaConfig(**odd, eos_token_id=eos))
    yield "qwen2", Qwen2ForCausalLM(Qwen2Config(**LLAMA, eos_token_id=eos))
    yield "qwen3", Qwen3ForCausalLM(Qwen3Config(**LLAMA, head_dim=16, eos_token_id=eos))


def greedy(model, prompt, tokens):
    """The continuation by transformers, with its end token."""
    ids = torch.tensor([prompt])
    with torch.no_grad():
        out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False,
                             pad_token_id=0)
    return out[0, len(prompt):].tolist()


class GenerateTest(FolderTestCase):
    def generate(self, folder, *arguments):
        return [json.loads(line) for line in self.call("generate", folder, "--json", *arguments).splitlines()]

    def given(self):
        return [word for prompt in PROMPTS for word in ("--ids", ",".join(map(str, prompt)))]

    def test_greedy_is_that_of_transformers(self):
        cases = {"gpt2": (7, 1), "llama": (None, 2), "llama scaled": (7, 3), "qwen2": (7, 2), "qwen3": (None, 3)}
        for kind, (eos, stages) in cases.items():
            with self.subTest(model=kind, eos=eos, stages=stages):
                [model] = [model for name, model in models(eos) if name == kind]
                folder = self.save(model, kind)
                expected = [greedy(model, prompt, 20) for prompt in PROMPTS]
                lines = self.generate(folder, "--temperature", 0, "--tokens", 20, *self.given(), f"pipeline.stages={stages}")
                self.assertEqual([line["ids"] for line in lines], expected)
                for line, ids in zip(lines, expected, strict=True):
                    self.assertEqual(line["finish"], "end" if ids[-1] == eos else "length")

    def test_generation_config(self):
        """Its values are defaults of the command line."""
        [model] = [model for name, model in models(7) if name == "qwen2"]
        folder = self.save(model)
        plain = [greedy(model, prompt, 12) for prompt in PROMPTS]
        model.generation_config.repetition_penalty = 1.3
        penalized = [greedy(model, prompt, 12) for prompt in PROMPTS]
        self.assertNotEqual(plain, penalized)
        model.generation_config.save_pretrained(folder)
        options = ["--tokens", 12, *self.given()]
        ids = lambda *more: [line["ids"] for line in self.generate(folder, *options, *more)]
        self.assertEqual(ids("--temperature", 0), penalized)
        self.assertEqual(ids("--temperature", 0, "--repetition-penalty", 1), plain)
        path = folder / "generation_config.json"
        config = {**json.loads(path.read_text()), "do_sample": True, "temperature": 0.6, "top_k": 1, "top_p": 0.9}
        path.write_text(json.dumps(config))
        self.assertEqual(ids(), penalized)  # of the likeliest token alone
        self.assertNotEqual(ids("--top-k", 0, "--top-p", 1, "--temperature", 3), penalized)
        path.write_text(json.dumps({**config, "num_beams": 4, "min_length": 0, "forced_eos_token_id": 3}))
        process = twobw("generate", folder, *options)
        self.assertEqual((process.returncode, process.stderr), (
            0, "twobw: generation_config.json asks for num_beams, forced_eos_token_id, which generate does not do\n"))
        path.write_text(json.dumps({"max_new_tokens": 5, "num_return_sequences": 2, "token_healing": False}))
        process = twobw("generate", folder, "--temperature", 0, "--json", "--ids", "3")
        self.assertIn("asks for num_return_sequences, which", process.stderr)
        self.assertEqual(json.loads(process.stdout)["ids"], plain[0][:5])
        self.assertEqual(ids("--temperature", 0), plain)  # --tokens counts more
        path.write_text(json.dumps({"max_length": 30}))
        self.assertIn("asks for max_length, which", twobw("generate", folder, *options).stderr)
        wrong = (("temperature", "hot"), ("max_new_tokens", 0), ("repetition_penalty", -1), ("top_p", 1.5),
                 ("top_k", -1), ("top_k", 2.5), ("max_new_tokens", 1e9))
        for key, value in wrong if FULL else wrong[:2]:
            path.write_text(json.dumps({**config, key: value}))
            self.assertIn(f"generation_config.json' has {key} {json.dumps(value)}", self.refused(
                "generate", folder, "--ids", "1"))

    @slow
    def test_files_of_other_kinds(self):
        """Links to themselves, pipes and files of any size are refused in one sentence; none is waited for."""
        [model] = [model for name, model in models(None) if name == "gpt2"]
        folder = self.save(model)
        for name in ("config.json", "generation_config.json", "tokenizer.json"):
            path = folder / name
            former = path.read_bytes() if path.exists() else None
            for kind in ("loop", "pipe", "large"):
                path.unlink(missing_ok=True)
                if kind == "loop":
                    path.symlink_to(name)
                elif kind == "pipe":
                    os.mkfifo(path)
                else:
                    with open(path, "wb") as file:
                        file.truncate(7 << 30)
                if name == "tokenizer.json" and kind != "large":  # not a tokenizer then
                    continue
                with self.subTest(name=name, kind=kind):
                    self.refused("generate", folder, "--prompt", "a")
            path.unlink()
            if former is not None:
                path.write_bytes(former)
        (folder / "tokenizer.json").write_text('{"model": {"byte_fallback": true}}')  # not needed for ids
        process = twobw("generate", folder, "--ids", "1,5", "--tokens", 1)
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertIn("generating without a tokenizer", process.stderr)

    @slow
    def test_a_prompt_does_not_depend_on_the_others(self):
        """Nor on how many are computed at once, nor on the stages; but on its number, the seed and the options."""
        [model] = [model for name, model in models(None) if name == "qwen3"]
        folder = self.save(model)
        options = ["--temperature", 1.5, "--top-k", 50, "--top-p", 0.95, "--repetition-penalty", 1.1, "--tokens", 25]
        seeded = [*options, "--seed", 5]
        together = self.generate(folder, *seeded, *self.given())
        for changes in (["--batch", 1], ["--batch", 2], ["pipeline.stages=3"]):
            self.assertEqual(self.generate(folder, *seeded, *self.given(), *changes), together)
        other = self.generate(folder, *seeded, "--ids", "3", "--ids", "44", "--ids", "1")
        self.assertEqual(other[0], together[0])
        self.assertNotEqual(self.generate(folder, *options, "--seed", 6, *self.given())[0], together[0])

    @slow
    def test_beyond_the_context(self):
        """When it is full, tokens are those after the last CONTEXT ones."""
        for name, model in models(None):
            if name not in ("gpt2", "qwen2"):
                continue
            folder = self.save(model, name)
            [line] = self.generate(folder, "--temperature", 0, "--tokens", CONTEXT + 10, "--ids", "1,2,3")
            tokens = [1, 2, 3]
            for _ in range(CONTEXT + 10):
                with torch.no_grad():
                    tokens.append(model(torch.tensor([tokens[-CONTEXT:]])).logits[0, -1].argmax().item())
            self.assertEqual(line["ids"], tokens[3:])

    def test_refusals(self):
        _, model = next(models(None))
        folder = self.save(model)
        for arguments, naming in (
                ([], ["has no tokenizer", "data.tokenizer", "--ids"]),
                (["--ids", "1,97"], ["token 97", "97 tokens"]),
                (["--ids", ",".join(["1"] * 41)], ["41 tokens", "at most 40"]),
                (["--ids", "1", "--prompt", "a"], ["one of --prompt, --ids and --prompts"]),
                (["--ids", "1", "--stop", "x"], ["--stop needs a tokenizer"]),
                (["--ids", "1", "--top-p", "0"], ["--top-p is 0", "at most 1"]),
                (["--ids", "1", "pipeline.replicas=2"], ["pipeline.replicas is 2"]),
                (["--prompts", self.folder / "none.txt"], ["none.txt"])) + ((
                (["--ids", "1", "--top-k", "-1"], ["--top-k is -1"]),
                (["--ids", "1", "--temperature", "inf"], ["--temperature is inf", "finite"]),
                (["--ids", "1", "--batch", "0"], ["--batch is 0"]),
                (["--ids", "1", "pipeline.stages=99"], ["pipeline.stages is 99"]),
                (["--ids", "1", "model.width=31"], ["model.width is 31"])) if FULL else ()):
            message = self.refused("generate", folder, *arguments)
            for text in naming:
                self.assertIn(text, message)

    def test_heads_that_do_not_generate(self):
        from transformers import BertConfig, BertForMaskedLM

        bert = BertForMaskedLM(BertConfig(vocab_size=60, hidden_size=24, num_hidden_layers=1, num_attention_heads=2,
                                          intermediate_size=40, max_position_embeddings=16))
        message = self.refused("generate", self.save(bert), "--ids", "1,2")
        self.assertIn("masked_lm", message)
        self.assertIn("causal_lm", message)


class TextTest(FolderTestCase):
    """With a tokenizer of our own and a run of our own."""

    def setUp(self):
        super().setUp()
        self.call("tokenizer", "train", "--vocab", 300, "--out", self.folder / "tokens", ROOT / "README.md")
        self.run_folder = self.folder / "run"
        self.call("train", *words({**TINY, "model.vocab": 300, "data.tokenizer": self.folder / "tokens",
                                   "run_dir": self.run_folder}))

    def test_files_of_prompts(self):
        (self.folder / "p.txt").write_text("one\ntwo words\n")
        (self.folder / "p.jsonl").write_text('{"prompt": "one"}\n{"prompt": "two words"}\n')
        options = ["--tokens", 5, "--seed", 2, "--ignore-end", "--json"]
        texts = [self.call("generate", self.run_folder, *options, "--prompts", self.folder / name)
                 for name in ("p.txt", "p.jsonl")]
        self.assertEqual(texts[0], texts[1])
        by_hand = self.call("generate", self.run_folder, *options, "--prompt", "one", "--prompt", "two words")
        self.assertEqual(by_hand, texts[0])
        lines = [json.loads(line) for line in texts[0].splitlines()]
        self.assertEqual([line["prompt"] for line in lines], ["one", "two words"])
        for line in lines:
            self.assertEqual(len(line["ids"]), 5)
            self.assertEqual(line["finish"], "length")
        shown = self.call("generate", self.run_folder, *options[:-1], "--prompts", self.folder / "p.txt")
        self.assertEqual(shown, f"one{lines[0]['text']}\n\ntwo words{lines[1]['text']}\n")
        (self.folder / "bad.txt").write_text("one\n\n")
        self.assertIn("bad.txt:2' is empty", self.refused("generate", self.run_folder, "--prompts",
                                                          self.folder / "bad.txt"))

    def test_stop_strings(self):
        options = ["--tokens", 40, "--seed", 4, "--ignore-end", "--prompt", "the"]
        [line] = [json.loads(self.call("generate", self.run_folder, *options, "--json"))]
        text = line["text"]
        stop = next(text[i:i + 2] for i in range(1, len(text)) if text[i:i + 2].isascii())
        [cut] = [json.loads(self.call("generate", self.run_folder, *options, "--json", f"--stop={stop}"))]
        self.assertEqual(cut["text"], text[: text.index(stop)])
        self.assertEqual(cut["finish"], "stop")
        self.assertEqual(self.call("generate", self.run_folder, *options, f"--stop={stop}"), f"the{cut['text']}\n")

    def test_the_tokenizer_may_have_moved(self):
        before = self.call("generate", self.run_folder, "--prompt", "the", "--tokens", 8)
        (self.folder / "tokens").rename(self.folder / "elsewhere")
        self.assertEqual(self.call("generate", self.run_folder, "--prompt", "the", "--tokens", 8), before)
        self.assertEqual(self.call("generate", self.run_folder / "model", "--prompt", "the", "--tokens", 8), before)
