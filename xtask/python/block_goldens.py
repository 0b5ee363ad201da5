"""Blocks of real models with small random weights, as PyTorch computes them in float64.

Run by `cargo xtask golden`; writes one safetensors file a block, weights and results in float32.
"""

import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

D, HEADS, FF, TOKENS, CONTEXT = 32, 2, 64, 11, 7


class Block:
    """Collects tensors by name; weights are drawn once and rounded to float32."""

    def __init__(self, name, seed):
        self.name, self.tensors = name, {}
        self.random = torch.Generator().manual_seed(seed)

    def draw(self, name, *shape, scale=None, shift=0.0):
        scale = shape[-1] ** -0.5 if scale is None else scale
        value = torch.randn(*shape, generator=self.random) * scale + shift
        self.tensors[name] = value
        return value.double()

    def linear(self, name, x, out, bias=True):
        w = self.draw(f"{name}.weight", out, x.shape[-1])
        b = self.draw(f"{name}.bias", out, scale=0.1) if bias else None
        return F.linear(x, w, b)

    def conv(self, name, x, out, taps):
        w = self.draw(f"{name}.weight", out, x.shape[1], taps, taps, scale=(x.shape[1] * taps * taps) ** -0.5)
        return F.conv2d(x, w, self.draw(f"{name}.bias", out, scale=0.1), padding=taps // 2)

    def affine(self, name, n):
        return self.draw(f"{name}.weight", n, scale=0.1, shift=1.0), self.draw(f"{name}.bias", n, scale=0.1)

    def layer_norm(self, name, x, eps=1e-5):
        return F.layer_norm(x, x.shape[-1:], *self.affine(name, x.shape[-1]), eps=eps)

    def group_norm(self, name, x, groups=8, eps=1e-5):
        return F.group_norm(x, groups, *self.affine(name, x.shape[1]), eps=eps)

    def rms_norm(self, name, x, eps=1e-6, offset=0.0):
        w = self.draw(f"{name}.weight", x.shape[-1], scale=0.1, shift=1.0 - offset)
        return F.rms_norm(x, x.shape[-1:], eps=eps) * (w + offset)

    def attention(self, name, x, context=None, heads=HEADS, mask=None, scale=None, bias=True, causal=False):
        context = x if context is None else context
        split = lambda v: v.unflatten(-1, (heads, -1)).transpose(1, 2)
        q = split(self.linear(f"{name}.q", x, x.shape[-1], bias))
        k = split(self.linear(f"{name}.k", context, x.shape[-1], bias))
        v = split(self.linear(f"{name}.v", context, x.shape[-1], bias))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale, is_causal=causal)
        return self.linear(f"{name}.o", y.transpose(1, 2).flatten(2), x.shape[-1], bias)

    def save(self, folder, y):
        self.tensors["y"] = y.float().contiguous()
        save_file(self.tensors, folder / f"{self.name}.safetensors")


def t5():
    b = Block("t5", 1)
    x = b.draw("x", 2, TOKENS, D, scale=1.0)
    bias = b.draw("bias", 1, HEADS, TOKENS, TOKENS, scale=1.0)
    x = x + b.attention("attention", b.rms_norm("norm1", x), mask=bias, scale=1.0, bias=False)
    n = b.rms_norm("norm2", x)
    gate = F.gelu(b.linear("wi_0", n, FF, False), approximate="tanh")
    return b, x + b.linear("wo", gate * b.linear("wi_1", n, FF, False), D, False)


def dit():
    b = Block("dit", 2)
    x = b.draw("x", 2, TOKENS, D, scale=1.0)
    context = b.draw("context", 2, CONTEXT, D, scale=1.0)
    time = b.draw("time", 2, 6, D, scale=0.5)
    table = b.draw("scale_shift_table", 6, D, scale=0.2)
    shift1, scale1, gate1, shift2, scale2, gate2 = (table[None] + time).chunk(6, dim=1)
    norm = lambda v: F.layer_norm(v, (D,), eps=1e-6)
    x = x + gate1 * b.attention("attn1", norm(x) * (1 + scale1) + shift1)
    x = x + b.attention("attn2", x, context)
    h = F.gelu(b.linear("ff1", norm(x) * (1 + scale2) + shift2, FF), approximate="tanh")
    return b, x + gate2 * b.linear("ff2", h, D)


def clip():
    b = Block("clip", 3)
    x = b.draw("x", 2, TOKENS, D, scale=1.0)
    x = x + b.attention("attention", b.layer_norm("norm1", x), causal=True)
    h = b.linear("fc1", b.layer_norm("norm2", x), FF)
    return b, x + b.linear("fc2", h * torch.sigmoid(1.702 * h), D)


def gemma():
    b = Block("gemma", 4)
    heads, kv_heads, dim, cap = 4, 2, 16, 50.0
    x = b.draw("x", 1, TOKENS, D, scale=1.0)
    angle = torch.arange(TOKENS)[:, None] * 10000.0 ** (-torch.arange(dim // 2) * 2 / dim)
    cos, sin = angle.cos().repeat(1, 2), angle.sin().repeat(1, 2)
    b.tensors["cos"], b.tensors["sin"] = cos.float(), sin.float()
    cos, sin = cos.double(), sin.double()
    turn = lambda v: v * cos + torch.cat((-v[..., dim // 2 :], v[..., : dim // 2]), -1) * sin
    n = b.rms_norm("norm1", x, offset=1.0)
    split = lambda v, h: v.unflatten(-1, (h, dim)).transpose(1, 2)
    q = turn(split(b.linear("q", n, heads * dim, False), heads))
    k = turn(split(b.linear("k", n, kv_heads * dim, False), kv_heads)).repeat_interleave(2, 1)
    v = split(b.linear("v", n, kv_heads * dim, False), kv_heads).repeat_interleave(2, 1)
    scores = torch.tanh(q @ k.transpose(-1, -2) * dim**-0.5 / cap) * cap
    scores = scores.masked_fill(torch.ones(TOKENS, TOKENS).triu(1).bool(), float("-inf"))
    y = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
    x = x + b.rms_norm("norm2", b.linear("o", y, D, False), offset=1.0)
    n = b.rms_norm("norm3", x, offset=1.0)
    h = F.gelu(b.linear("gate", n, FF, False), approximate="tanh") * b.linear("up", n, FF, False)
    return b, x + b.rms_norm("norm4", b.linear("down", h, D, False), offset=1.0)


def residual(b, name, x, out, time=None):
    h = b.conv(f"{name}.conv1", F.silu(b.group_norm(f"{name}.norm1", x)), out, 3)
    if time is not None:
        h = h + b.linear(f"{name}.time", F.silu(time), out)[:, :, None, None]
    h = b.conv(f"{name}.conv2", F.silu(b.group_norm(f"{name}.norm2", h)), out, 3)
    return h + (x if x.shape[1] == out else b.conv(f"{name}.skip", x, out, 1))


def resnet():
    b = Block("resnet", 5)
    x = b.draw("x", 2, 16, 9, 6, scale=1.0)
    return b, residual(b, "block", x, 24, b.draw("time", 2, D, scale=1.0))


def vae_mid():
    b = Block("vae_mid", 6)
    x = residual(b, "first", b.draw("x", 1, 16, 6, 5, scale=1.0), 16)
    n = b.group_norm("norm", x, eps=1e-6).flatten(2).transpose(1, 2)
    x = x + b.attention("attention", n, heads=1).transpose(1, 2).unflatten(-1, (6, 5))
    return b, residual(b, "second", x, 16)


def spatial():
    b = Block("spatial", 7)
    x = b.draw("x", 2, D, 5, 4, scale=1.0)
    context = b.draw("context", 2, CONTEXT, D, scale=1.0)
    h = b.conv("proj_in", b.group_norm("norm", x, eps=1e-6), D, 1).flatten(2).transpose(1, 2)
    h = h + b.attention("attn1", b.layer_norm("norm1", h))
    h = h + b.attention("attn2", b.layer_norm("norm2", h), context)
    up, gate = b.linear("ff1", b.layer_norm("norm3", h), 2 * FF).chunk(2, -1)
    h = h + b.linear("ff2", up * F.gelu(gate), D)
    return b, x + b.conv("proj_out", h.transpose(1, 2).unflatten(-1, (5, 4)), D, 1)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for make in (t5, dit, clip, gemma, resnet, vae_mid, spatial):
        block, y = make()
        block.save(folder, y)
        print(f"{block.name}: y {tuple(y.shape)}, norm {y.norm():.3f}")
