"""Llama in plain PyTorch, on weights by twobw's names: an implementation that shares nothing with it."""
import torch
from torch.nn import functional as F


def loss(weights, heads, kv_heads, tokens, targets):
    return F.cross_entropy(logits(weights, heads, kv_heads, tokens).flatten(0, 1), targets.flatten())


def logits(w, heads, kv_heads, tokens):
    x = w["embedding.tokens"][tokens]
    for block in range(sum(name.endswith("qkv.weight") for name in w)):
        at = f"blocks.{block}."
        x = x + attention(w, at + "attention.", heads, kv_heads, norm(x, w[at + "attention.norm.weight"]))
        gate, value = (norm(x, w[at + "mlp.norm.weight"]) @ w[at + "mlp.gate_up.weight"].T).chunk(2, -1)
        x = x + (F.silu(gate) * value) @ w[at + "mlp.down.weight"].T
    return norm(x, w["head.norm.weight"]) @ w.get("head.weight", w["embedding.tokens"]).T


def norm(x, weight):
    return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * weight


def attention(w, at, heads, kv_heads, x):
    b, length, _ = x.shape
    packed = (x @ w[at + "qkv.weight"].T).view(b, length, heads + 2 * kv_heads, -1).transpose(1, 2)
    q, k, v = packed.split([heads, kv_heads, kv_heads], 1)
    q, k = turned(q), turned(k)
    k, v = (part.repeat_interleave(heads // kv_heads, 1) for part in (k, v))
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    mixed = scores.masked_fill(future, float("-inf")).softmax(-1) @ v
    return mixed.transpose(1, 2).reshape(b, length, -1) @ w[at + "out.weight"].T


def turned(x):
    """Each pair of elements i and i + size / 2 as a complex number, times that of its angle."""
    length, size = x.shape[-2:]
    frequencies = 10000.0 ** (-torch.arange(0, size, 2, dtype=torch.double) / size)
    angles = torch.outer(torch.arange(length, dtype=torch.double), frequencies)
    z = torch.complex(*x.chunk(2, -1)) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([z.real, z.imag], -1)
