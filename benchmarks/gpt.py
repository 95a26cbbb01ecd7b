"""GPT-2's architecture in plain PyTorch, as a list of layers that can be cut anywhere.

The layers are: embedding, (attention, MLP) for every block, head. The head is not tied to the embedding, so that the
two may live in different processes. A layer's initial weights depend on the seed and on its place in the list only,
so every layout starts from the same model.
"""

import torch
from torch import nn
from torch.nn import functional as F

CLIP = 1.0


class Embedding(nn.Module):
    def __init__(self, job):
        super().__init__()
        self.token = nn.Embedding(job.vocab, job.width)
        self.position = nn.Embedding(job.context, job.width)

    def forward(self, tokens):
        return self.token(tokens) + self.position.weight[: tokens.shape[1]]


class Attention(nn.Module):
    def __init__(self, job):
        super().__init__()
        self.heads = job.heads
        self.norm = nn.LayerNorm(job.width)
        self.qkv = nn.Linear(job.width, 3 * job.width)
        self.out = nn.Linear(job.width, job.width)

    def forward(self, x):
        b, t, width = x.shape
        q, k, v = (part.view(b, t, self.heads, width // self.heads).transpose(1, 2)
                   for part in self.qkv(self.norm(x)).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).reshape(b, t, width))


class Mlp(nn.Module):
    def __init__(self, job):
        super().__init__()
        self.norm = nn.LayerNorm(job.width)
        self.up = nn.Linear(job.width, 4 * job.width)
        self.out = nn.Linear(4 * job.width, job.width)

    def forward(self, x):
        return x + self.out(F.gelu(self.up(self.norm(x)), approximate="tanh"))


class Head(nn.Module):
    def __init__(self, job):
        super().__init__()
        self.norm = nn.LayerNorm(job.width)
        self.logits = nn.Linear(job.width, job.vocab, bias=False)

    def forward(self, x):
        return self.logits(self.norm(x))


def kind(job, index):
    """The class of the layer at a place in the list."""
    if index == 0:
        return Embedding
    if index == job.cuttable_layers - 1:
        return Head
    return Attention if index % 2 == 1 else Mlp


def build(job, first=0, last=None):
    """Layers first..last (both included; to the end if last is not given) as one module."""
    last = job.cuttable_layers - 1 if last is None else last
    return nn.Sequential(*(_build_layer(job, index) for index in range(first, last + 1)))


def _build_layer(job, index):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(job.seed * 1_000_003 + index)
        layer = kind(job, index)(job)
        for name, parameter in layer.named_parameters():
            if parameter.dim() == 2:
                residual = name == "out.weight"
                nn.init.normal_(parameter, std=0.02 / (2 * job.layers) ** 0.5 if residual else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
    return layer


def batch(job, update, microbatch):
    """Tokens and targets of one microbatch: drawn from a skewed distribution, so that there is something to learn."""
    generator = torch.Generator().manual_seed((job.seed * 1_000_003 + update) * 1_000_003 + microbatch)
    draws = torch.rand(job.microbatch, job.context + 1, generator=generator)
    tokens = (draws**3 * job.vocab).long()
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def optimizer(job, parameters):
    """AdamW, fused where this torch has it for the CPU; matrices decay, vectors do not."""
    parameters = list(parameters)
    groups = [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": 0.1},
              {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}]
    options = {"lr": job.lr, "betas": (0.9, 0.95), "eps": 1e-8}
    try:
        return torch.optim.AdamW(groups, fused=True, **options)
    except RuntimeError:
        return torch.optim.AdamW(groups, foreach=True, **options)


def clip(parameters, sum_over_stages=lambda squared_norm: None):
    """Scales the gradients to a global norm of at most CLIP and returns the norm before that.

    sum_over_stages is called with the squared norm of these parameters and adds the other stages' in place.
    """
    parameters = [p for p in parameters if p.grad is not None]
    squared = torch.nn.utils.get_total_norm([p.grad for p in parameters]) ** 2
    sum_over_stages(squared)
    norm = squared.sqrt()
    torch.nn.utils.clip_grads_with_norm_(parameters, CLIP, norm)
    return norm


def prepare(job):
    """Applies the job's settings to this process and has torch import what it loads on first use (the optimizer pulls
    in much), so that neither memory nor time of the run contains it."""
    torch.backends.mkldnn.enabled = bool(job.onednn)
    layer = nn.Linear(8, 8)
    layer(torch.ones(8, 8)).sum().backward()
    clip(layer.parameters())
    optimizer(job, layer.parameters()).step()
