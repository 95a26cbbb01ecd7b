"""GPT-2 in plain PyTorch, on weights by twobw's names: an implementation that shares nothing with it."""
import torch
from torch.nn import functional as F


def logits(weights, heads, tokens):
    w = weights
    width = w["embedding.tokens"].shape[1]
    x = w["embedding.tokens"][tokens] + w["embedding.positions"][: tokens.shape[1]]
    for block in range(sum(name.endswith("qkv.weight") for name in w)):
        at = f"blocks.{block}."
        x = x + attention(w, at + "attention.", heads, norm(w, at + "attention.norm.", x, width))
        x = x + mlp(w, at + "mlp.", norm(w, at + "mlp.norm.", x, width))
    return norm(w, "head.norm.", x, width) @ w.get("head.weight", w["embedding.tokens"]).T


def loss(weights, heads, tokens, targets):
    return F.cross_entropy(logits(weights, heads, tokens).flatten(0, 1), targets.flatten())


def norm(w, at, x, width):
    return F.layer_norm(x, (width,), w[at + "weight"], w[at + "bias"], 1e-5)


def linear(w, at, x):
    return F.linear(x, w[at + "weight"], w[at + "bias"])


def attention(w, at, heads, x):
    b, length, width = x.shape
    q, k, v = (part.view(b, length, heads, -1).transpose(1, 2) for part in linear(w, at + "qkv.", x).split(width, -1))
    scores = q @ k.transpose(-2, -1) / (width // heads) ** 0.5
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    mixed = scores.masked_fill(future, float("-inf")).softmax(-1) @ v
    return linear(w, at + "out.", mixed.transpose(1, 2).reshape(b, length, width))


def mlp(w, at, x):
    return linear(w, at + "down.", F.gelu(linear(w, at + "up.", x), approximate="tanh"))
