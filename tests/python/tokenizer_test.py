"""Tokenizers against the libraries that the published vocabularies are used with: the same ids for every text."""
import importlib.util
import json
import subprocess
import unittest

import tokenizers
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import torture
from support import ROOT, TestCase, program, slow, twobw

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")


def corpus():
    """Prose and code of the project, and the strange texts, so that tokens of all sorts are learned."""
    paths = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]
    # Trainers differ about special tokens that are written out.
    prose = [path.read_text().replace("<|endoftext|>", "") for path in paths]
    return [*prose, torture.mixture(1, 20000), torture.mixture(2, 20000)]


def split_by(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def byte_level(pre_tokenizer, normalizer=None, vocab=3000, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocab, show_progress=False, special_tokens=["<|endoftext|>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def word_piece(**normalizer):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(**normalizer)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(vocab_size=4000, show_progress=False, limit_alphabet=2000,
                                        special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    tokenizer.train_from_iterator(corpus(), trainer)
    ids = [(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ids)
    return tokenizer


class TokenizerTest(TestCase):
    def ids(self, path, text, *options):
        """Of the program; text or bytes come in."""
        data = text if isinstance(text, bytes) else text.encode()
        command = [program("TWOBW_BINARY", "twobw"), "tokenizer", "encode", str(path), *options]
        process = subprocess.run(command, input=data, capture_output=True, timeout=120)
        self.assertEqual(process.returncode, 0, process.stderr)
        return [list(map(int, line.split())) for line in process.stdout.splitlines()]

    def decoded(self, path, ids, *options):
        command = [program("TWOBW_BINARY", "twobw"), "tokenizer", "decode", str(path), *options]
        process = subprocess.run(command, input=" ".join(map(str, ids)).encode(), capture_output=True, timeout=120)
        self.assertEqual(process.returncode, 0, process.stderr)
        return process.stdout

    def saved(self, tokenizer, name="tokenizer.json"):
        path = self.folder / name
        tokenizer.save(str(path))
        return path

    def assert_equal_ids(self, tokenizer, path):
        """On every text: those without line ends as lines of one file, long ones and all together by themselves."""
        texts = torture.texts()
        lines = [text for text in texts if "\n" not in text]
        ours = self.ids(path, "\n".join(lines) + "\n", "--lines")
        theirs = tokenizer.encode_batch([line + "\n" for line in lines], add_special_tokens=False)
        for line, mine, other in zip(lines, ours, theirs, strict=True):
            self.assertEqual(mine, other.ids, repr(line[:200]))
        for text in [*(text for text in texts if len(text) > 1000), "".join(texts)]:
            self.assertEqual(self.ids(path, text)[0], tokenizer.encode(text, add_special_tokens=False).ids)
        framed = tokenizer.encode(texts[0]).ids
        self.assertEqual(self.ids(path, texts[0], "--special")[0], framed)
        # Invalid UTF-8 is replaced as in Python.
        data = torture.invalid_bytes()
        expected = tokenizer.encode(data.decode(errors="replace"), add_special_tokens=False).ids
        self.assertEqual(self.ids(path, data, "--replace-invalid")[0], expected)

    def assert_lossless(self, path):
        for data in (torture.invalid_bytes(), "".join(torture.texts()).encode(), bytes(range(256))):
            self.assertEqual(self.decoded(path, self.ids(path, data)[0]), data)

    # Byte-level BPE

    def test_gpt2(self):
        tokenizer = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False))
        path = self.saved(tokenizer)
        self.assert_equal_ids(tokenizer, path)
        self.assert_lossless(path)
        tokenizer.model.save(str(self.folder))  # vocab.json and merges.txt
        text = torture.mixture(3, 3000)
        self.assertEqual(self.ids(self.folder / "vocab.json", text), self.ids(path, text))

    def test_a_space_before_the_text(self):
        tokenizer = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True), vocab=600)
        self.assert_equal_ids(tokenizer, self.saved(tokenizer))

    @slow
    def test_llama3(self):
        tokenizer = byte_level(split_by(LLAMA3), ignore_merges=True)
        begin = tokenizer.token_to_id("<|endoftext|>")
        tokenizer.post_processor = processors.Sequence([
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", begin)])])
        path = self.saved(tokenizer)
        self.assert_equal_ids(tokenizer, path)
        self.assert_lossless(path)

    @slow
    def test_qwen2(self):
        tokenizer = byte_level(split_by(QWEN2), normalizers.NFC())
        self.assert_equal_ids(tokenizer, self.saved(tokenizer))

    def test_added_tokens(self):
        tokenizer = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), normalizers.NFC(), vocab=600)
        added = [tokenizers.AddedToken("<mask>", lstrip=True, special=True),
                 tokenizers.AddedToken("<end>", rstrip=True, special=True),
                 tokenizers.AddedToken("word", single_word=True, normalized=False),
                 tokenizers.AddedToken("é", normalized=True),
                 tokenizers.AddedToken("<m"), tokenizers.AddedToken("two words")]
        tokenizer.add_tokens(added)
        tokenizer.add_special_tokens(added[:2])
        path = self.saved(tokenizer)
        for text in ("a <mask> b", "a \u3000<mask>\t<end> \n b<end>", "word sword words word, éword wordé word",
                     "<m<mask", "cafe\u0301 café", "two words two  words", " <mask> <mask> ", "x<|endoftext|>y<end>",
                     "_word word_"):
            self.assertEqual(self.ids(path, text)[0], tokenizer.encode(text).ids, text)

    # WordPiece

    def test_bert(self):
        for options in ({}, {"lowercase": False, "strip_accents": True, "handle_chinese_chars": False},
                        {"strip_accents": False, "clean_text": False}):
            with self.subTest(options):
                tokenizer = word_piece(**options)
                path = self.saved(tokenizer)
                self.assert_equal_ids(tokenizer, path)
                ids = tokenizer.encode(torture.mixture(4, 300) + " It 's not . Do n't !").ids
                for skip, flags in ((False, ()), (True, ("--skip-special",))):
                    expected = tokenizer.decode(ids, skip_special_tokens=skip)
                    self.assertEqual(self.decoded(path, ids, *flags).decode(), expected)

    def test_bert_from_its_vocabulary(self):
        from transformers import BertTokenizerFast

        tokenizer = word_piece()
        order = sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1])
        (self.folder / "vocab.txt").write_text("".join(f"{token}\n" for token, _ in order))
        reference = BertTokenizerFast.from_pretrained(self.folder)
        for text in ("Hello [MASK] wörld!", torture.mixture(5, 2000)):
            self.assertEqual(self.ids(self.folder, text, "--special")[0], reference(text)["input_ids"])

    def test_files_beside_a_tokenizer(self):
        """tokenizer_config.json and others count as in transformers, with tokenizer.json or without."""
        from transformers import AutoTokenizer

        files = {"gpt2": byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), vocab=600), "bert": word_piece()}
        size = files["gpt2"].get_vocab_size()
        gpt2 = ({"add_prefix_space": True}, {"add_bos_token": True, "add_eos_token": True, "eos_token": "<e>"},
                {"additional_special_tokens": ["word"]}, {"extra_special_tokens": ["<e>"], "pad_token": "[PAD]"},
                {"image_token": "<e>"}, {"tokenizer_class": "PreTrainedTokenizerFast", "add_prefix_space": True})
        bert = ({"do_lower_case": False}, {"strip_accents": False}, {"tokenize_chinese_chars": False},
                {"cls_token": "[MASK]"}, {"sep_token": "<e>"}, {"do_lower_case": False, "strip_accents": True})
        beside = ({"added_tokens.json": {"<e>": size}}, {"special_tokens_map.json": {"eos_token": "<e>"}},
                  {"special_tokens_map.json": {"additional_special_tokens": ["<e>"]},
                   "added_tokens.json": {"<e>": size, "word": size + 1}})
        cases = [("gpt2", True, {"tokenizer_config.json": config}) for config in gpt2]
        cases += [("gpt2", False, {"tokenizer_config.json": config}) for config in gpt2[:2]]
        cases += [("gpt2", False, names) for names in beside]
        cases += [("bert", number % 2 == 0, {"tokenizer_config.json": config}) for number, config in enumerate(bert)]
        for kind, whole, names in cases:
            with self.subTest(kind=kind, whole=whole, names=names):
                folder = self.folder / f"{kind}{len(list(self.folder.iterdir()))}"
                folder.mkdir()
                (folder / "config.json").write_text(json.dumps({"model_type": kind}))
                if whole:
                    files[kind].save(str(folder / "tokenizer.json"))
                elif kind == "gpt2":
                    files[kind].model.save(str(folder))
                else:
                    order = sorted(files[kind].get_vocab().items(), key=lambda entry: entry[1])
                    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token, _ in order))
                for name, content in names.items():
                    (folder / name).write_text(json.dumps(content))
                reference = AutoTokenizer.from_pretrained(folder)
                for text in ("a word É<e> 中文[PAD]", " The<|endoftext|>the"):
                    self.assertEqual(self.ids(folder, text, "--special")[0], reference(text)["input_ids"], text)

    # Sentencepiece

    @unittest.skipUnless(importlib.util.find_spec("sentencepiece"), "the sentencepiece package is not installed")
    def test_sentencepiece(self):
        import sentencepiece

        (self.folder / "text.txt").write_text("\n".join(corpus()).replace("\x00", ""))
        sentencepiece.SentencePieceTrainer.train(
            input=str(self.folder / "text.txt"), model_prefix=str(self.folder / "tokenizer"), vocab_size=1500,
            model_type="bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
            hard_vocab_limit=False, max_sentence_length=100000, minloglevel=2)
        library = sentencepiece.SentencePieceProcessor(str(self.folder / "tokenizer.model"))
        lines = [text for text in torture.texts() if "\n" not in text and not text.startswith((" ", "▁", "</s>"))]
        lines = [line for line in lines if "</s>" not in line and "\x00" not in line]
        ours = self.ids(self.folder, "\n".join(lines) + "\n", "--lines")
        for line, mine in zip(lines, ours, strict=True):
            self.assertEqual(mine, library.encode(line + "\n"), repr(line[:200]))

    # Training

    def test_learns_the_merges_that_others_learn(self):
        text = "\n".join(corpus())
        (self.folder / "text.txt").write_bytes(text.encode())
        out = self.folder / "out"
        process = twobw("tokenizer", "train", "--vocab", 1500, "--out", out, self.folder / "text.txt")
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertIn("1500 tokens", process.stdout)
        reference = Tokenizer(models.BPE())
        reference.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        reference.train_from_iterator([text], trainers.BpeTrainer(
            vocab_size=1499, min_frequency=2, show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
        learned = json.loads((out / "tokenizer.json").read_text())["model"]
        expected = json.loads(reference.to_str())["model"]
        self.assertEqual([merge.split(" ") for merge in learned["merges"]], expected["merges"])
        self.assertEqual(learned["vocab"].pop("<|endoftext|>"), 1499)
        self.assertEqual(learned["vocab"], expected["vocab"])
        again = self.folder / "again"
        twobw("tokenizer", "train", "--vocab", 1500, "--out", again, self.folder / "text.txt")
        for name in ("tokenizer.json", "vocab.json", "merges.txt"):
            self.assertEqual((out / name).read_bytes(), (again / name).read_bytes())

    def test_its_files_are_read_by_others(self):
        from transformers import GPT2TokenizerFast, PreTrainedTokenizerFast

        (self.folder / "text.txt").write_bytes("\n".join(corpus()).encode())
        out = self.folder / "out"
        twobw("tokenizer", "train", "--vocab", 1200, "--out", out, self.folder / "text.txt")
        self.assert_equal_ids(Tokenizer.from_file(str(out / "tokenizer.json")), out)
        text = torture.mixture(6, 2000) + "<|endoftext|>" + torture.mixture(7, 100)
        ids = self.ids(out, text)[0]
        whole = PreTrainedTokenizerFast(tokenizer_file=str(out / "tokenizer.json"))
        self.assertEqual(whole(text)["input_ids"], ids)
        plain = GPT2TokenizerFast(vocab=str(out / "vocab.json"), merges=str(out / "merges.txt"))
        self.assertEqual(plain(text)["input_ids"], ids)

    # The command

    def test_show(self):
        process = twobw("tokenizer", "show", "bytes")
        self.assertEqual((process.returncode, process.stdout), (0, "bytes, 256 ids\n"))

    def test_bad_input(self):
        (self.folder / "tokenizer.json").write_text('{"model": {"type": "Unigram"}}')
        (self.folder / "ids").write_text("1 2 x")
        (self.folder / "text").write_text("text")
        for arguments, naming in (
                (["show", self.folder / "nowhere"], "nowhere"), (["show", self.folder], "Unigram"),
                (["encode", "bytes", self.folder / "nowhere"], "nowhere"),
                (["decode", "bytes", self.folder / "ids"], "'x'"),
                (["train", "--out", self.folder / "out", self.folder / "nowhere"], "nowhere"),
                (["train", "--vocab", "200", "--out", self.folder / "out", self.folder / "text"], "--vocab is 200"),
                (["encode"], "tokenizer is required"), ([], "subcommand"), (["spell"], "subcommand")):
            process = twobw("tokenizer", *arguments)
            self.assertEqual(process.returncode, 2, (arguments, process.stderr))
            self.assertEqual(process.stdout, "")
            self.assertRegex(process.stderr, r"\Atwobw: [^\n]+\n\Z")
            self.assertIn(naming, process.stderr)
        self.assertFalse((self.folder / "out").exists())
