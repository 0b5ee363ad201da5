"""TAESD's shape (diffusers' AutoencoderTiny), written out: 128x128 RGB <-> 4x16x16 latents.

Owns the two networks and their parameter names. Knows nothing of the denoiser's latent statistics.
Reference: diffusers `models/autoencoders/vae.py` (EncoderTiny, DecoderTiny); madebyollin/taesd.
"""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import relu


@dataclass(frozen=True)
class Config:
    latent_channels: int = 4
    encoder_channels: int = 32
    decoder_channels: int = 64
    encoder_blocks: tuple = (1, 3, 3, 3)
    decoder_blocks: tuple = (3, 3, 3, 1)


class Block(nn.Module):
    """Three 3x3 convolutions around an identity skip; channel counts never change inside a stage."""

    def __init__(self, channels):
        super().__init__()
        conv = lambda: nn.Conv2d(channels, channels, 3, padding=1)
        self.conv = nn.Sequential(conv(), nn.ReLU(), conv(), nn.ReLU(), conv())

    def forward(self, x):
        return relu(self.conv(x) + x)


class Encoder(nn.Module):
    """Pictures in [-1, 1] -> latents (unbounded, near unit scale), an eighth of the size."""

    def __init__(self, config):
        super().__init__()
        c = config.encoder_channels
        layers = []
        for stage, blocks in enumerate(config.encoder_blocks):
            if stage == 0:
                layers.append(nn.Conv2d(3, c, 3, padding=1))
            else:
                layers.append(nn.Conv2d(c, c, 3, padding=1, stride=2, bias=False))
            layers += [Block(c) for _ in range(blocks)]
        layers.append(nn.Conv2d(c, config.latent_channels, 3, padding=1))
        self.layers = nn.Sequential(*layers)

    def forward(self, pictures):
        return self.layers((pictures + 1) / 2)


class Decoder(nn.Module):
    """Latents -> pictures in [-1, 1] (not clamped)."""

    def __init__(self, config):
        super().__init__()
        c = config.decoder_channels
        layers = [nn.Conv2d(config.latent_channels, c, 3, padding=1), nn.ReLU()]
        for stage, blocks in enumerate(config.decoder_blocks):
            last = stage == len(config.decoder_blocks) - 1
            layers += [Block(c) for _ in range(blocks)]
            if not last:
                layers.append(nn.Upsample(scale_factor=2, mode="nearest"))
            layers.append(nn.Conv2d(c, 3 if last else c, 3, padding=1, bias=last))
        self.layers = nn.Sequential(*layers)

    def forward(self, latents):
        # TAESD's soft clamp: latents beyond 3 deviations saturate rather than blow up.
        return self.layers(torch.tanh(latents / 3) * 3) * 2 - 1


class Autoencoder(nn.Module):
    """Both halves under their checkpoint names, `encoder.layers...` and `decoder.layers...`."""

    def __init__(self, config=Config()):
        super().__init__()
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
