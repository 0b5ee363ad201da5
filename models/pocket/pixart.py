"""The PixArt-alpha transformer, written out under diffusers' parameter names.

Owns the denoising network. Knows nothing of noise schedules or of text encoders.
One timestep embedding is turned into six modulations once (AdaLN-single); each block adds its own
learned table to them. Cross-attention reads the projected caption and is not normed before.
Reference: diffusers `models/transformers/pixart_transformer_2d.py`.
"""

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import gelu, layer_norm, scaled_dot_product_attention, silu


@dataclass(frozen=True)
class Config:
    in_channels: int = 4
    out_channels: int = 4
    sample_size: int = 16
    patch_size: int = 2
    num_attention_heads: int = 5
    attention_head_dim: int = 64
    num_layers: int = 6
    caption_channels: int = 192
    norm_eps: float = 1e-6

    @property
    def width(self):
        return self.num_attention_heads * self.attention_head_dim


def sincos(positions, width):
    """Half sines, half cosines of `positions` over `width // 2` frequencies, in float64."""
    frequencies = 10000.0 ** -(torch.arange(width // 2, dtype=torch.float64) / (width / 2))
    angles = positions.double()[:, None] * frequencies[None]
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def position_embedding(grid, width):
    """[grid * grid, width]: the column's embedding, then the row's, for patches in row-major order."""
    place = torch.arange(grid)
    column, row = place.repeat(grid), place.repeat_interleave(grid)
    return torch.cat([sincos(column, width // 2), sincos(row, width // 2)], dim=1).float()


class PatchEmbed(nn.Module):
    def __init__(self, config):
        super().__init__()
        p = config.patch_size
        self.proj = nn.Conv2d(config.in_channels, config.width, p, stride=p)
        grid = config.sample_size // p
        self.register_buffer("table", position_embedding(grid, config.width), persistent=False)

    def forward(self, latents):
        x = self.proj(latents).flatten(2).transpose(1, 2)
        return x + self.table.to(x.dtype)


class TwoLinears(nn.Module):
    """`linear_1`, an activation, `linear_2`: the timestep embedder and the caption projection."""

    def __init__(self, before, after, activation):
        super().__init__()
        self.linear_1 = nn.Linear(before, after)
        self.linear_2 = nn.Linear(after, after)
        self.activation = activation

    def forward(self, x):
        return self.linear_2(self.activation(self.linear_1(x)))


class AdaLayerNormSingle(nn.Module):
    """Timesteps [batch] -> six modulations [batch, 6 * width], and the embedding they came from."""

    def __init__(self, config):
        super().__init__()
        self.emb = nn.ModuleDict({"timestep_embedder": TwoLinears(256, config.width, silu)})
        self.linear = nn.Linear(config.width, 6 * config.width)

    def forward(self, timesteps):
        exponents = torch.arange(128, device=timesteps.device, dtype=torch.float32) / 128
        angles = timesteps.float()[:, None] * torch.exp(-math.log(10000.0) * exponents)[None]
        waves = torch.cat([angles.cos(), angles.sin()], dim=1)
        embedded = self.emb["timestep_embedder"](waves)
        return self.linear(silu(embedded)), embedded


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = config.num_attention_heads
        self.to_q = nn.Linear(config.width, config.width)
        self.to_k = nn.Linear(config.width, config.width)
        self.to_v = nn.Linear(config.width, config.width)
        self.to_out = nn.ModuleList([nn.Linear(config.width, config.width)])

    def forward(self, x, context, mask=None):
        q, k, v = self.to_q(x), self.to_k(context), self.to_v(context)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        y = scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.to_out[0](y.transpose(1, 2).flatten(2))


class Gelu(nn.Module):
    def __init__(self, before, after):
        super().__init__()
        self.proj = nn.Linear(before, after)

    def forward(self, x):
        return gelu(self.proj(x), approximate="tanh")


class FeedForward(nn.Module):
    """`net.0.proj`, GELU (tanh form), `net.2`; entry 1 is a dropout in the original and empty here."""

    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(Gelu(width, 4 * width), nn.Identity(), nn.Linear(4 * width, width))

    def forward(self, x):
        return self.net(x)


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.epsilon = config.norm_eps
        self.scale_shift_table = nn.Parameter(torch.randn(6, config.width) / config.width**0.5)
        self.attn1 = Attention(config)
        self.attn2 = Attention(config)
        self.ff = FeedForward(config.width)

    def norm(self, x, shift, scale):
        return layer_norm(x, x.shape[-1:], eps=self.epsilon) * (1 + scale) + shift

    def forward(self, x, caption, mask, modulation):
        table = self.scale_shift_table[None] + modulation.unflatten(1, (6, -1))
        shift1, scale1, gate1, shift2, scale2, gate2 = table.to(x.dtype).chunk(6, dim=1)
        y = self.norm(x, shift1, scale1)
        x = x + gate1 * self.attn1(y, y)
        x = x + self.attn2(x, caption, mask)
        return x + gate2 * self.ff(self.norm(x, shift2, scale2))


class PixArt(nn.Module):
    """Noisy latents, timesteps, caption states and their mask -> the prediction, latents' shape."""

    def __init__(self, config=Config()):
        super().__init__()
        self.config = config
        self.pos_embed = PatchEmbed(config)
        self.adaln_single = AdaLayerNormSingle(config)
        tanh_gelu = lambda x: gelu(x, approximate="tanh")
        self.caption_projection = TwoLinears(config.caption_channels, config.width, tanh_gelu)
        self.transformer_blocks = nn.ModuleList([Block(config) for _ in range(config.num_layers)])
        self.scale_shift_table = nn.Parameter(torch.randn(2, config.width) / config.width**0.5)
        self.proj_out = nn.Linear(config.width, config.patch_size**2 * config.out_channels)
        self.initialize()

    def initialize(self):
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
        embedder = self.adaln_single.emb["timestep_embedder"]
        for linear in (embedder.linear_1, embedder.linear_2, self.adaln_single.linear):
            nn.init.normal_(linear.weight, std=0.02)
        # At the start the caption adds nothing and the prediction is zero.
        for block in self.transformer_blocks:
            nn.init.zeros_(block.attn2.to_out[0].weight)
        nn.init.zeros_(self.proj_out.weight)

    def forward(self, latents, timesteps, caption, real):
        x = self.pos_embed(latents)
        modulation, embedded = self.adaln_single(timesteps)
        caption = self.caption_projection(caption)
        mask = real[:, None, None, :]
        for block in self.transformer_blocks:
            x = block(x, caption, mask, modulation)
        shift, scale = (self.scale_shift_table[None] + embedded[:, None]).to(x.dtype).chunk(2, dim=1)
        x = layer_norm(x, x.shape[-1:], eps=self.config.norm_eps) * (1 + scale) + shift
        return self.unpatch(self.proj_out(x))

    def unpatch(self, x):
        p, c = self.config.patch_size, self.config.out_channels
        grid = self.config.sample_size // p
        x = x.reshape(-1, grid, grid, p, p, c).permute(0, 5, 1, 3, 2, 4)
        return x.reshape(-1, c, grid * p, grid * p)
