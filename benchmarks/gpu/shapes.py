"""The models that are compared: what PyTorch builds of them, and the settings of twobw for the same."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Shape:
    layers: int
    width: int
    heads: int
    microbatch: int  # sequences that fit with their activations, also in eager mode
    vocab: int = 50304  # GPT-2's 50257, padded to a multiple of 128
    context: int = 1024
    family: str = "gpt"

    @property
    def parameters(self):
        """Parameters of matrix products: all but the positions. The head is the token embedding's transpose."""
        block = 12 * self.width**2 + 13 * self.width
        return self.layers * block + 2 * self.width + self.vocab * self.width

    @property
    def flops_per_token(self):
        """Forward and backward, without recomputation; attention counts in full, masked or not."""
        return 6 * self.parameters + 12 * self.layers * self.width * self.context

    @property
    def settings(self):
        """Of twobw."""
        names = ("family", "layers", "width", "heads", "vocab", "context")
        return {f"model.{key}": getattr(self, key) for key in names} | {"model.tied": "true"}

    def build(self):
        from gpt2 import Gpt

        return Gpt(self)


@dataclasses.dataclass(frozen=True)
class LlamaShape(Shape):
    kv_heads: int = 8
    hidden: int = 8192
    family: str = "llama"

    @property
    def parameters(self):
        keys = self.width // self.heads * self.kv_heads
        block = 2 * self.width**2 + 2 * self.width * keys + 3 * self.width * self.hidden + 2 * self.width
        return self.layers * block + self.width + self.vocab * self.width

    @property
    def settings(self):
        return super().settings | {"model.kv_heads": self.kv_heads, "model.hidden": self.hidden,
                                   "model.rope_theta": 500000, "model.norm_eps": 1e-5}

    def build(self):
        from theirs import llama

        return llama(self)


@dataclasses.dataclass(frozen=True)
class BertShape(Shape):
    """Tells masked tokens, whose head has a product of its own besides the embedding's. All sequences are of full
    length and say so: neither side has padding to skip."""

    family: str = "bert"

    @property
    def parameters(self):
        return super().parameters + self.width**2 + 4 * self.width + self.vocab

    @property
    def settings(self):
        return super().settings | {"model.padding": "false", "model.norm_eps": 1e-12}

    def build(self):
        from theirs import bert

        return bert(self)


MODELS = {
    "tiny": Shape(2, 64, 2, microbatch=4, vocab=512, context=64),
    "tiny-llama": LlamaShape(2, 64, 4, microbatch=4, vocab=512, context=64, kv_heads=2, hidden=128),
    "124M": Shape(12, 768, 12, microbatch=64),
    "350M": Shape(24, 1024, 16, microbatch=32),
    "774M": Shape(36, 1280, 20, microbatch=16),
    "1558M": Shape(48, 1600, 25, microbatch=16),
    "tiny-bert": BertShape(2, 64, 4, microbatch=4, vocab=512, context=64),
    "bert-large": BertShape(24, 1024, 16, microbatch=32, vocab=30592, context=512),
    "llama-1B": LlamaShape(16, 2048, 32, microbatch=8, vocab=128256, context=2048),
}
