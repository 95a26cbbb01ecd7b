"""GPT-2 in plain PyTorch: (tokens, targets) -> loss."""

from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.heads = shape.heads
        self.norm1 = nn.LayerNorm(shape.width)
        self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)
        self.norm2 = nn.LayerNorm(shape.width)
        self.up = nn.Linear(shape.width, 4 * shape.width)
        self.down = nn.Linear(4 * shape.width, shape.width)

    def forward(self, x):
        b, t, width = x.shape
        q, k, v = (part.view(b, t, self.heads, width // self.heads).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.token = nn.Embedding(shape.vocab, shape.width)
        self.position = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocab, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                residual = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(parameter, std=0.02 / (2 * shape.layers) ** 0.5 if residual else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
        self.head.weight = self.token.weight

    def forward(self, tokens, targets):
        x = self.token(tokens) + self.position.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())
