"""The noise schedule (PixArt's: 1000 steps, beta linear 1e-4..0.02) with v-prediction, and DDIM over it.

Owns alphas and the sampler used to measure. Knows nothing of networks beyond "a function of (x, t)".
Its last step leaves 0.6 % of the signal's amplitude, little enough for plain backgrounds to be drawn
in the colour that was asked for.
"""

import torch

STEPS = 1000
BETA_START, BETA_END = 1e-4, 0.02


def alphas_cumprod(device="cpu"):
    betas = torch.linspace(BETA_START, BETA_END, STEPS, dtype=torch.float64)
    return (1 - betas).cumprod(0).float().to(device)


def add_noise(clean, noise, t, table):
    """Noisy latents at steps `t` [batch], and the v that the network must predict."""
    signal = table[t].sqrt().view(-1, 1, 1, 1)
    sigma = (1 - table[t]).sqrt().view(-1, 1, 1, 1)
    return signal * clean + sigma * noise, signal * noise - sigma * clean


def trailing_timesteps(count):
    """`count` timesteps that begin at the last one (999): 999, 949, ... for 20."""
    return [round(STEPS - STEPS * i / count) - 1 for i in range(count)]


@torch.no_grad()
def ddim(predict, noise, count, table):
    """Deterministic DDIM from `noise`; `predict(x, t)` returns v with guidance already in it."""
    x = noise
    steps = trailing_timesteps(count)
    for step, following in zip(steps, steps[1:] + [None]):
        a = table[step]
        b = table[following] if following is not None else torch.ones((), device=x.device)
        v = predict(x, step)
        clean = a.sqrt() * x - (1 - a).sqrt() * v
        epsilon = a.sqrt() * v + (1 - a).sqrt() * x
        x = b.sqrt() * clean + (1 - b).sqrt() * epsilon
    return x
