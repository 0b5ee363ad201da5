"""Pixels for a sample: a picture, repainted or not, over a plain background.

Owns colour: what a picture's own colour is, and how it is repainted. Runs in batches on any device.
"""

from dataclasses import dataclass

import numpy as np
import torch

# Per paint of captions.PAINTS: hue in turns (None: no hue), saturation and value that the picture's
# dominant region is brought to. "brown" is a dark orange; the last three have no hue.
TARGETS = [
    (None, 0, 0), (0.99, 0.80, 0.88), (0.08, 0.82, 0.97), (0.14, 0.75, 0.98), (0.36, 0.68, 0.68),
    (0.60, 0.75, 0.88), (0.76, 0.60, 0.75), (0.92, 0.50, 0.97), (0.06, 0.60, 0.50),
    (None, 0.10, 0.17), (None, 0.03, 0.95), (None, 0.03, 0.58),
]


@dataclass
class Tint:
    """A picture's dominant hue (turns; -1: its main region is gray or white), that region's mean
    saturation and value, and the colour's name where one colour rules."""

    hue: float
    level: tuple
    paintable: bool
    colour: str | None


def hsv(rgb):
    """RGB in [0, 1], channel axis 1 -> hue (turns), saturation, value."""
    high, low = rgb.amax(1), rgb.amin(1)
    span = high - low
    r, g, b = rgb.unbind(1)
    safe = span.clamp(min=1e-6)
    hue = torch.where(
        high == r, ((g - b) / safe) % 6, torch.where(high == g, (b - r) / safe + 2, (r - g) / safe + 4)
    )
    return torch.where(span > 1e-6, hue / 6, 0.0), span / high.clamp(min=1e-6), high


def rgb(hue, saturation, value):
    """The inverse of `hsv`."""
    turns = torch.stack([hue, hue + 2 / 3, hue + 1 / 3], 1) % 1.0 * 6
    wheel = ((turns - 3).abs() - 1).clamp(0, 1)
    return value[:, None] * (1 - saturation[:, None] * (1 - wheel))


def colour_name(hue, saturation, value):
    if saturation < 0.15:
        return "white" if value > 0.85 else "black" if value < 0.25 else "gray"
    degrees = hue * 360
    if degrees < 15 or degrees > 340:
        return "red" if saturation > 0.55 else "pink"
    if degrees < 45:
        return "brown" if value < 0.72 else "orange"
    for limit, name in ((68, "yellow"), (170, "green"), (255, "blue"), (300, "purple"), (341, "pink")):
        if degrees < limit:
            return name
    return None


def tints(pixels):
    """A `Tint` for every picture of `pixels` (uint8 RGBA [n, h, w, 4])."""
    found = []
    for start in range(0, len(pixels), 64):
        batch = torch.from_numpy(pixels[start : start + 64]).permute(0, 3, 1, 2).float() / 255
        hue, saturation, value = hsv(batch[:, :3])
        solid = batch[:, 3] > 0.9
        for h, s, v, keep in zip(hue, saturation, value, solid):
            h, s, v = h[keep], s[keep], v[keep]
            vivid = s * v
            if len(h) < 100:
                found.append(Tint(0.0, (0.5, 0.5), False, None))
                continue
            bins = torch.histc((h[vivid > 0.2] * 36).floor(), 36, 0, 35)
            smooth = bins + bins.roll(1) + bins.roll(-1)
            peak = (int(smooth.argmax()) + 0.5) / 36
            near = (((h - peak + 0.5) % 1 - 0.5).abs() < 0.1) & (vivid > 0.15)
            share = near.float().mean().item()
            neutral = (s < 0.3) & (v > 0.3)
            if share > 0.4:
                level = (s[near].mean().item(), v[near].mean().item())
                mean_hue = (peak + ((h[near] - peak + 0.5) % 1 - 0.5).mean().item()) % 1
                name = colour_name(mean_hue, *level) if share > 0.55 else None
                found.append(Tint(mean_hue, level, True, name))
            else:
                gray = neutral.float().mean().item()
                bright = v[neutral].mean().item() if gray > 0.5 else 0.5
                name = colour_name(0, 0, bright) if gray > 0.8 else None
                found.append(Tint(-1.0, (0.5, bright), gray > 0.5, name))
    return found


def compose(pictures, backgrounds, paints, hue, level):
    """uint8 RGBA [n, h, w, 4], uint8 [n, 3], paint indices [n], the tints -> RGB in [-1, 1], [n, 3, h, w]."""
    rgba = pictures.permute(0, 3, 1, 2).float() / 255
    targets = torch.tensor([(h if h is not None else -1.0, s, v) for h, s, v in TARGETS], device=rgba.device)
    target = targets[paints.long()]
    h, s, v = hsv(rgba[:, :3])
    shape = (-1, 1, 1)
    hue = hue.view(shape)
    gray = hue < 0
    vivid = (1.6 - ((h - hue + 0.5) % 1 - 0.5).abs() * 10).clamp(0, 1) * (s * v * 8 - 0.6).clamp(0, 1)
    plain = (2.2 - s * 6).clamp(0, 1) * (v * 5 - 1).clamp(0, 1)
    near = torch.where(gray, plain, vivid)
    wanted = target[:, 0].view(shape)
    new_h = torch.where(wanted < 0, h, torch.where(gray, wanted, (h - hue + wanted) % 1))
    new_s = torch.where(gray, target[:, 1].view(shape), s * (target[:, 1] / level[:, 0]).view(shape)).clamp(0, 1)
    # Darkening scales; lightening takes a power, which keeps black black and never leaves [0, 1].
    ratio = (target[:, 2] / level[:, 1]).view(shape)
    power = (target[:, 2].clamp(0.02, 0.98).log() / level[:, 1].clamp(0.05, 0.98).log()).clamp(0.25, 1.0).view(shape)
    new_v = torch.where(ratio < 1, v * ratio, v.clamp(min=1e-4) ** power)
    painted = rgb(new_h, new_s, new_v)
    amount = torch.where(paints.view(shape) > 0, near, 0.0)[:, None]
    colour = rgba[:, :3] + (painted - rgba[:, :3]) * amount
    alpha = rgba[:, 3:]
    behind = backgrounds.float().view(-1, 3, 1, 1) / 255
    return (colour * alpha + behind * (1 - alpha)) * 2 - 1
