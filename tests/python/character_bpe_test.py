"""tokenizer.json of BPE with byte_fallback (Llama 2, Mistral) without tokenizer.model: the ids of tokenizers and of
transformers for every text."""
import functools
import importlib.util
import json
import os
import subprocess
import unittest

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # everything is made here, nothing is fetched

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import torture
from model_folders import FolderTestCase
from support import FULL, ROOT, program, slow

MARK = "▁"
STRANGE = ["", " ", "  ", " the", "  the", "the ", "the  ", "a   b", "▁", "▁the", "a▁ b", "\n", " \n ", "the\n\nthe",
           "</s>", " </s>", "</s> the", "the</s>the", "<s>the </s> the<unk>", "<0x41>", "👍🏽", "\u0378", "word",
           "a word", "aword b", "<e>", "a <e> b<e>c", " <e>", "<m> the", "the <m>", "the  <m>  the", "é word é<e>é",
           "<e> <e>", "<e>  the"]


def pairs(vocabulary):
    """All merges of two tokens into one, in the order of its ids: as transformers makes them of a tokenizer.model."""
    merges = []
    for piece in vocabulary:
        cuts = ((piece[:at], piece[at:]) for at in range(1, len(piece)))
        found = [(left, right) for left, right in cuts if left in vocabulary and right in vocabulary]
        merges += sorted(found, key=lambda pair: (vocabulary[pair[0]], vocabulary[pair[1]]))
    return merges


@functools.cache
def learn(limit=1500):
    """Tokens in the order in which a BPE of characters learned them, after <unk>, <s>, </s> and the bytes."""
    learner = Tokenizer(models.BPE())
    learner.normalizer = normalizers.Replace(" ", MARK)
    learner.pre_tokenizer = pre_tokenizers.Metaspace(split=True)
    texts = [(ROOT / "README.md").read_text(), torture.mixture(1, 3000), "a  b    c      d        e " * 30]
    learner.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=limit, show_progress=False, limit_alphabet=200))
    order = sorted(learner.get_vocab().items(), key=lambda entry: entry[1])
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokens += [token for token, _ in order if len(token) > 1]
    tokens += [MARK * 2, MARK * 3, MARK * 4, MARK * 8]
    tokens += [token for token, _ in order if len(token) == 1]
    return {token: id for id, token in enumerate(dict.fromkeys(tokens))}


def character_bpe(vocabulary, normalizer=None, pre_tokenizer=None, strip=True):
    tokenizer = Tokenizer(models.BPE(vocabulary, pairs(vocabulary), unk_token="<unk>", fuse_unk=True,
                                     byte_fallback=True))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    steps = [decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence(steps + ([decoders.Strip(content=" ", left=1)] if strip else []))
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    tokenizer.add_special_tokens([AddedToken(name, normalized=False) for name in ("<unk>", "<s>", "</s>")])
    return tokenizer


def legacy():
    return normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)])


def metaspace(scheme):
    return pre_tokenizers.Metaspace(replacement=MARK, prepend_scheme=scheme, split=False)


def forms(vocabulary):
    return {"prepend": character_bpe(vocabulary, normalizer=legacy()),
            "replace": character_bpe(vocabulary, normalizer=normalizers.Sequence([normalizers.Replace(" ", MARK)]),
                                     strip=False),
            **{scheme: character_bpe(vocabulary, pre_tokenizer=metaspace(scheme), strip=scheme != "never")
               for scheme in ("first", "always", "never")}}


def add_tokens(tokenizer):
    tokenizer.add_special_tokens([AddedToken("<m>", lstrip=True, rstrip=True), AddedToken("<pad>")])
    tokenizer.add_tokens([AddedToken("<e>", normalized=False), AddedToken("word", normalized=True, single_word=True)])


class CharacterBpeTest(FolderTestCase):
    turn = 0

    def setUp(self):
        super().setUp()
        self.vocabulary = learn()

    def run_tokenizer(self, *arguments, data):
        process = subprocess.run([program("TWOBW_BINARY", "twobw"), "tokenizer", *map(str, arguments)], input=data,
                                 capture_output=True, timeout=120)
        self.assertEqual(process.returncode, 0, process.stderr)
        return process.stdout

    def ids(self, path, texts, *options):
        """Ids of one text, or of every text; none has a line end."""
        if isinstance(texts, str):
            return [list(map(int, self.run_tokenizer("encode", path, *options, data=texts.encode()).split()))]
        data = "".join(f"{text}\n" for text in texts).encode()
        lines = self.run_tokenizer("encode", path, "--lines", *options, data=data)
        return [list(map(int, line.split())) for line in lines.splitlines()]

    def saved(self, tokenizer, name="tokenizer.json"):
        tokenizer.save(str(self.folder / name))
        return self.folder / name

    def assert_equal_ids(self, encode, decode, path, texts=None):
        """All texts without line ends as lines; by themselves, in a process each, some, other ones every time."""
        texts = texts or [*STRANGE, *torture.texts()]
        lines = [text for text in texts if "\n" not in text]
        for line, ours in zip(lines, self.ids(path, lines), strict=True):
            self.assertEqual(ours, encode(line + "\n", False), repr(line[:200]))
        few = slice(self.turn % 16, None, 16)
        self.turn += 1
        for text in [*[text for text in texts if "\n" in text][few], *STRANGE[few], "".join(texts)]:
            self.assertEqual(self.ids(path, text)[0], encode(text, False), repr(text[:200]))
        for text in ("the</s>", "  the  ", *STRANGE[-24:][few], texts[-3][:200]):
            ids = encode(text, True)
            self.assertEqual(self.ids(path, text, "--special")[0], ids, repr(text))
            for skip, flags in ((False, ()), (True, ("--skip-special",))):
                shown = self.run_tokenizer("decode", path, *flags, data=" ".join(map(str, ids)).encode())
                self.assertEqual(shown.decode(errors="replace"), decode(ids, skip), repr(text))

    def assert_like_tokenizers(self, tokenizer, path):
        self.assert_equal_ids(lambda text, special: tokenizer.encode(text, add_special_tokens=special).ids,
                              lambda ids, skip: tokenizer.decode(ids, skip_special_tokens=skip), path)

    def assert_like_transformers(self, folder, texts=None):
        from transformers import AutoTokenizer

        reference = AutoTokenizer.from_pretrained(folder)
        self.assert_equal_ids(lambda text, special: reference(text, add_special_tokens=special)["input_ids"],
                              lambda ids, skip: reference.decode(ids, skip_special_tokens=skip), folder, texts)

    def test_every_form(self):
        for name, tokenizer in forms(self.vocabulary).items():
            with self.subTest(name):
                self.assert_like_tokenizers(tokenizer, self.saved(tokenizer))

    def test_added_tokens(self):
        for name, tokenizer in list(forms(self.vocabulary).items())[::1 if FULL else 2]:
            with self.subTest(name):
                add_tokens(tokenizer)
                self.assert_like_tokenizers(tokenizer, self.saved(tokenizer))

    @unittest.skipUnless(importlib.util.find_spec("sentencepiece"), "the sentencepiece package is not installed")
    @slow
    def test_a_sentencepiece_model_written_out(self):
        import sentencepiece

        (self.folder / "text.txt").write_text((ROOT / "README.md").read_text() + torture.mixture(2, 3000))
        sentencepiece.SentencePieceTrainer.train(
            input=str(self.folder / "text.txt"), model_prefix=str(self.folder / "trained"), vocab_size=1200,
            model_type="bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
            allow_whitespace_only_pieces=True, hard_vocab_limit=False, minloglevel=2)
        library = sentencepiece.SentencePieceProcessor(str(self.folder / "trained.model"))
        vocabulary = {library.id_to_piece(id): id for id in range(library.get_piece_size())}
        for name, tokenizer in forms(vocabulary).items():
            with self.subTest(name):
                self.assert_like_tokenizers(tokenizer, self.saved(tokenizer))

    @slow
    def test_classes_of_transformers(self):
        """LlamaTokenizer of transformers 5 sets its own marks instead of those in tokenizer.json; others keep the file."""
        configs = ({}, {"tokenizer_class": "LlamaTokenizer"}, {"tokenizer_class": "LlamaTokenizerFast", "legacy": True},
                   {"tokenizer_class": "LlamaTokenizer", "legacy": None, "add_bos_token": False},
                   {"tokenizer_class": "LlamaTokenizer", "legacy": False, "add_prefix_space": False},
                   {"tokenizer_class": "PreTrainedTokenizerFast", "add_prefix_space": False, "legacy": True},
                   {"tokenizer_class": "TokenizersBackend"})
        for name in ("prepend", "first", "never"):
            tokenizer = forms(self.vocabulary)[name]
            add_tokens(tokenizer)
            for config in configs:
                with self.subTest(name, config=config):
                    folder = self.folder / f"{name}{configs.index(config)}"
                    folder.mkdir()
                    self.saved(tokenizer, folder / "tokenizer.json")
                    (folder / "config.json").write_text('{"model_type": "llama"}')
                    if config:
                        (folder / "tokenizer_config.json").write_text(json.dumps(config))
                    self.assert_like_transformers(folder, STRANGE)

    def test_tokens_beside_it(self):
        """added_tokens_decoder and special tokens of tokenizer_config.json, as of Llama 2 and TinyLlama."""
        def token(content, **flags):
            return {"content": content, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
                    "special": True, **flags}

        decoder = {"0": token("<unk>"), "1": token("<s>"), "2": token("</s>")}
        size = len(self.vocabulary)
        configs = ({"added_tokens_decoder": decoder, "bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>"},
                   {"added_tokens_decoder": {**decoder, str(size): token("<e>", special=False)}},
                   {"added_tokens_decoder": {**decoder, str(size): token("word", normalized=True, special=False)}},
                   {"pad_token": "<pad>", "additional_special_tokens": ["<e>"]})
        whole = forms(self.vocabulary)["prepend"]
        add_tokens(whole)
        for kind in ("LlamaTokenizer", "PreTrainedTokenizerFast"):
            for number, (tokenizer, config) in enumerate([*((forms(self.vocabulary)["prepend"], config)
                                                            for config in configs), (whole, configs[0])]):
                with self.subTest(kind, number=number):
                    folder = self.folder / f"{kind}{number}"
                    folder.mkdir()
                    self.saved(tokenizer, folder / "tokenizer.json")
                    (folder / "config.json").write_text('{"model_type": "llama"}')
                    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": kind, **config}))
                    self.assert_like_transformers(folder, STRANGE)
