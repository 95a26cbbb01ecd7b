"""Models of Hugging Face's transformers, with random weights, as (tokens, targets) -> loss."""

from torch import nn
from torch.nn import functional as F
from transformers import BertConfig, BertForMaskedLM, LlamaConfig, LlamaForCausalLM


class CausalLoss(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens, targets):
        logits = self.model(input_ids=tokens, use_cache=False).logits
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def llama(shape):
    config = LlamaConfig(vocab_size=shape.vocab, hidden_size=shape.width, intermediate_size=shape.hidden,
                         num_hidden_layers=shape.layers, num_attention_heads=shape.heads,
                         num_key_value_heads=shape.kv_heads, max_position_embeddings=shape.context,
                         rope_theta=500000.0, rms_norm_eps=1e-5, tie_word_embeddings=True,
                         attn_implementation="sdpa")
    return CausalLoss(LlamaForCausalLM(config))


class MaskedLoss(nn.Module):
    """Targets of one token in seven; the others are ignored."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens, targets):
        logits = self.model(input_ids=tokens).logits
        told = targets % 7 == 0
        return F.cross_entropy(logits.flatten(0, 1), targets.where(told, -100).flatten())


def bert(shape):
    config = BertConfig(vocab_size=shape.vocab, hidden_size=shape.width, intermediate_size=4 * shape.width,
                        num_hidden_layers=shape.layers, num_attention_heads=shape.heads,
                        max_position_embeddings=shape.context, hidden_dropout_prob=0.0,
                        attention_probs_dropout_prob=0.0, attn_implementation="sdpa")
    return MaskedLoss(BertForMaskedLM(config))
