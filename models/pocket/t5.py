"""The T5 v1.1 encoder, written out under Hugging Face's parameter names.

Owns the text network. Knows nothing of tokenization or of the denoiser.
Facts that differ from other transformers: attention has no 1/sqrt(d) scale, one relative position
bias (in block 0) serves every block, norms are RMS without bias, no linear layer has a bias.
Reference: transformers `models/t5/modeling_t5.py`.
"""

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import gelu


@dataclass(frozen=True)
class Config:
    vocab_size: int = 2560
    d_model: int = 192
    d_kv: int = 64
    d_ff: int = 512
    num_layers: int = 3
    num_heads: int = 3
    relative_attention_num_buckets: int = 32
    relative_attention_max_distance: int = 128
    layer_norm_epsilon: float = 1e-6
    pad_token_id: int = 0
    eos_token_id: int = 1
    unk_token_id: int = 2


class RmsNorm(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(config.d_model))
        self.epsilon = config.layer_norm_epsilon

    def forward(self, x):
        variance = x.float().pow(2).mean(-1, keepdim=True)
        return (x * torch.rsqrt(variance + self.epsilon)) * self.weight


def position_buckets(length, config, device):
    """Bucket of each (query, key) pair: exact near zero, logarithmic farther, signed by direction."""
    place = torch.arange(length, device=device)
    offset = place[None, :] - place[:, None]
    half = config.relative_attention_num_buckets // 2
    exact = half // 2
    distance = offset.abs()
    far = exact + (
        torch.log(distance.clamp(min=1) / exact)
        / math.log(config.relative_attention_max_distance / exact)
        * (half - exact)
    ).long()
    bucket = torch.where(distance < exact, distance, far.clamp(max=half - 1))
    return bucket + half * (offset > 0)


class SelfAttention(nn.Module):
    def __init__(self, config, owns_bias):
        super().__init__()
        self.heads = config.num_heads
        inner = config.num_heads * config.d_kv
        self.q = nn.Linear(config.d_model, inner, bias=False)
        self.k = nn.Linear(config.d_model, inner, bias=False)
        self.v = nn.Linear(config.d_model, inner, bias=False)
        self.o = nn.Linear(inner, config.d_model, bias=False)
        if owns_bias:
            self.relative_attention_bias = nn.Embedding(config.relative_attention_num_buckets, config.num_heads)

    def forward(self, x, bias):
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        weights = (q @ k.transpose(-1, -2) + bias).float().softmax(-1).to(v.dtype)
        return self.o((weights @ v).transpose(1, 2).flatten(2))


class AttentionLayer(nn.Module):
    def __init__(self, config, owns_bias):
        super().__init__()
        self.SelfAttention = SelfAttention(config, owns_bias)
        self.layer_norm = RmsNorm(config)

    def forward(self, x, bias):
        return x + self.SelfAttention(self.layer_norm(x), bias)


class DenseReluDense(nn.Module):
    """Gated GELU (tanh form), as v1.1 has it; the name is the checkpoint's."""

    def __init__(self, config):
        super().__init__()
        self.wi_0 = nn.Linear(config.d_model, config.d_ff, bias=False)
        self.wi_1 = nn.Linear(config.d_model, config.d_ff, bias=False)
        self.wo = nn.Linear(config.d_ff, config.d_model, bias=False)

    def forward(self, x):
        return self.wo(gelu(self.wi_0(x), approximate="tanh") * self.wi_1(x))


class FeedForwardLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.DenseReluDense = DenseReluDense(config)
        self.layer_norm = RmsNorm(config)

    def forward(self, x):
        return x + self.DenseReluDense(self.layer_norm(x))


class Block(nn.Module):
    def __init__(self, config, owns_bias):
        super().__init__()
        self.layer = nn.ModuleList([AttentionLayer(config, owns_bias), FeedForwardLayer(config)])

    def forward(self, x, bias):
        return self.layer[1](self.layer[0](x, bias))


class Stack(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.block = nn.ModuleList([Block(config, owns_bias=n == 0) for n in range(config.num_layers)])
        self.final_layer_norm = RmsNorm(config)


class T5Encoder(nn.Module):
    """Token ids [batch, length], true where real -> hidden states [batch, length, d_model]."""

    def __init__(self, config=Config()):
        super().__init__()
        self.config = config
        self.shared = nn.Embedding(config.vocab_size, config.d_model)
        self.encoder = Stack(config)
        self.initialize()

    def initialize(self):
        """T5's own deviations: the query's is small because attention is not scaled."""
        c = self.config
        nn.init.normal_(self.shared.weight, std=1.0)
        for block in self.encoder.block:
            attention, dense = block.layer[0].SelfAttention, block.layer[1].DenseReluDense
            nn.init.normal_(attention.q.weight, std=(c.d_model * c.d_kv) ** -0.5)
            for linear in (attention.k, attention.v, dense.wi_0, dense.wi_1):
                nn.init.normal_(linear.weight, std=c.d_model**-0.5)
            nn.init.normal_(attention.o.weight, std=(c.num_heads * c.d_kv) ** -0.5)
            nn.init.normal_(dense.wo.weight, std=c.d_ff**-0.5)
        nn.init.normal_(self.encoder.block[0].layer[0].SelfAttention.relative_attention_bias.weight, std=c.d_model**-0.5)

    def forward(self, tokens, real):
        x = self.shared(tokens)
        table = self.encoder.block[0].layer[0].SelfAttention.relative_attention_bias
        bias = table(position_buckets(tokens.shape[1], self.config, tokens.device)).permute(2, 0, 1)[None]
        bias = bias + torch.where(real, 0.0, -1e4)[:, None, None, :]
        for block in self.encoder.block:
            x = block(x, bias)
        return self.encoder.final_layer_norm(x)
