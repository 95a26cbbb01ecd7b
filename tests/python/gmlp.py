"""gMLP in plain PyTorch, on the names of examples/gmlp: an implementation that shares nothing with it."""
import torch
from torch.nn import functional as F

from gpt import linear, norm


def logits(weights, tokens):
    w = weights
    length, width = tokens.shape[1], w["embedding.tokens"].shape[1]
    x = w["embedding.tokens"][tokens]
    for block in range(sum(name.endswith("gate.weight") for name in w)):
        at = f"blocks.{block}."
        u, v = F.gelu(linear(w, at + "up.", norm(w, at + "norm.", x, width)), approximate="tanh").chunk(2, -1)
        past = torch.ones(length, length, dtype=torch.bool).tril()
        places = w[at + "gate.weight"][:length, :length].masked_fill(~past, 0)
        mixed = torch.einsum("st,btf->bsf", places, norm(w, at + "gate.norm.", v, v.shape[-1]))
        x = x + linear(w, at + "down.", u * (mixed + w[at + "gate.bias"][:length, None]))
    return norm(w, "head.norm.", x, width) @ w.get("head.weight", w["embedding.tokens"]).T


def loss(weights, tokens, targets):
    return F.cross_entropy(logits(weights, tokens).flatten(0, 1), targets.flatten())
