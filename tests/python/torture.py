"""Texts that tokenizers get wrong: made here, the same every time."""
import random

# Letters, numbers, spaces and other characters of all sorts, with joiners and separators of words.
PARTS = [
    "a", "I", "the", "The", "WORLD", "naïve", "Ångström", "straße", "ﬁ", "İstanbul", "ıI", "ſ", "'ſ", "K", "Ǆ",
    "\u00e9", "e\u0301", "o\u0328\u0304", "q\u0323\u0307", "a\u0315\u0300\u05ae\u0301b", "Z\u0351\u036b\u0343",
    "中文", "日本語の文章", "ｶﾀｶﾅ", "한국어", "\u1112\u1161\u11ab", "ไทยภาษา", "हिन्दी", "العربية", "עִבְרִית", "ελληνικά",
    "Ω", "\u2126",
    "豈", "\U0002f800", "\U00020000", "\U0002ebf0", "\U00010400", "\U0001e900",
    "👍", "👍🏽", "👨‍👩‍👧‍👦", "🇩🇪", "🏴\U000e0067\U000e0062\U000e007f", "❤️", "☃", "1️⃣",
    "0", "12", "345", "6789", "1234567890", "٣٤", "४", "½", "²", "Ⅷ", "①", "一",
    " ", "  ", "   ", "\t", "\n", "\r", "\r\n", "\n\n\n", " \n", "\n ", "\v", "\f", "\x85", "\xa0", "\u1680", "\u2003",
    "\u2028", "\u202f", "\u3000", "\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u00ad",
    "'", "’", "'s", "'S", "'t", "'re", "'RE", "'ve", "'m", "'ll", "'LL", "'d", "'x", "''", "n't", "don't", "we'll've",
    ".", ",", "...", "!?", "--", "_", "__init__", "(", ")", "[]", "{}", "<", ">", "</s>", "@#$%^&*", "|~`", "«»", "“”",
    "。", "、", "€", "$", "±", "\\", "/", "http://x.y/z?a=b&c=1", "a@b.cd",
    "\x00", "\x01", "\x1b[0m", "\x7f", "\x9f", "\ufffd", "\ufffe", "\U0010ffff", "\ue000", "\u0378", "\u0897", "\u1c89",
]
# Not UTF-8: cut short, overlong, surrogates, above the last code point, bytes that never occur.
INVALID = [b"\xff", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\x80\x81", b"\xc0\xaf", b"\xed\xa0\x80",
           b"\xf4\x90\x80\x80"]


def long_words():
    return "\n".join(["a" * 5000, "ab" * 3000, "x" * 100, "y" * 101, "1" * 4000, "!" * 3000, "=" * 999,
                      " " * 4000 + "z", "\n" * 1500, "中" * 2000, "é" * 1200, "e\u0301" * 700, "👍" * 500, "\u0301" * 300, "aB1!" * 500])


def some_characters():
    """Every character up to the first ideographs, then one in some hundred, each with neighbours."""
    codes = [*range(0x3400), *range(0x3400, 0x110000, 97)]
    return " ".join(f"a{c}b{c}{c} {c}1" for c in map(chr, codes) if not 0xd800 <= ord(c) < 0xe000)


def mixture(seed, parts):
    generator = random.Random(seed)
    return "".join(generator.choice(PARTS) for _ in range(parts))


def texts():
    """Some hundred texts, short and long."""
    return [*PARTS, *(mixture(seed, 2 + seed % 12) for seed in range(400)), mixture(1000, 5000), long_words(),
            some_characters()]


def invalid_bytes():
    generator = random.Random(7)
    parts = [part.encode() for part in PARTS] + INVALID * 8
    return b"".join(generator.choice(parts) for _ in range(8000))
