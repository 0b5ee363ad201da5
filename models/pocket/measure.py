"""The measures: do pictures come out as named, on the background asked for, and how sharp is the autoencoder.

Owns prompts, sampling with guidance and contact sheets. Runs on the training weights (from train.py) and,
as a program, on the dequantized GGUF.
"""

import argparse
import json
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

import captions
import schedule

HERE = Path(__file__).parent
PROMPTS = HERE / "prompts"
PSNR_BACKGROUNDS = ((255, 255, 255), (60, 110, 220), (18, 18, 18))
GUIDANCE = 3.0  # classifier-free guidance unless told otherwise


@dataclass
class Pipeline:
    """Every part that turns a prompt into a picture."""

    processor: object  # sentencepiece
    text: torch.nn.Module
    denoiser: torch.nn.Module
    autoencoder: torch.nn.Module
    mean: torch.Tensor  # [4], of the autoencoder's latents over the training pictures
    deviation: torch.Tensor

    def encode(self, prompts, device):
        tokens = torch.from_numpy(captions.encode(self.processor, prompts).astype(np.int64)).to(device)
        real = tokens != 0
        return self.text(tokens, real), real

    @torch.no_grad()
    def latents(self, prompts, seed, steps=20, guidance=GUIDANCE):
        """Standardized latents for `prompts`; noise is drawn on the CPU so that devices agree."""
        device = self.mean.device
        config = self.denoiser.config
        noise = torch.randn(
            len(prompts), config.in_channels, config.sample_size, config.sample_size,
            generator=torch.Generator().manual_seed(seed),
        ).to(device)
        states, real = self.encode([*prompts, *[""] * len(prompts)], device)

        def predict(x, step):
            t = torch.full((2 * len(x),), step, device=device)
            with_text, without = self.denoiser(torch.cat([x, x]), t, states, real).float().chunk(2)
            return without + guidance * (with_text - without)

        return schedule.ddim(predict, noise, steps, schedule.alphas_cumprod(device))

    @torch.no_grad()
    def decode(self, latents):
        """uint8 pictures [n, 128, 128, 3]."""
        z = latents * self.deviation.view(1, -1, 1, 1) + self.mean.view(1, -1, 1, 1)
        pictures = ((self.autoencoder.decoder(z).float() + 1) / 2).clamp(0, 1)
        return (pictures.permute(0, 2, 3, 1) * 255).round().byte().cpu().numpy()


def read(name):
    """The lines of a prompt file, split at tabs."""
    return [line.split("\t") for line in (PROMPTS / name).read_text().splitlines() if line]


def sheet(pictures, columns, path, labels=None):
    """A contact sheet as PNG, each prompt written below its picture."""
    from PIL import Image, ImageDraw

    rows = -(-len(pictures) // columns)
    strip = 14 if labels else 0
    size = pictures.shape[1]
    image = Image.new("RGB", (columns * size, rows * (size + strip)), "white")
    draw = ImageDraw.Draw(image)
    for n, picture in enumerate(pictures):
        x, y = n % columns * size, n // columns * (size + strip)
        image.paste(Image.fromarray(picture), (x, y))
        if labels:
            draw.text((x + 2, y + size + 1), labels[n][:24], fill="black")
    image.save(path, optimize=True)


def names(pipeline, bank, bank_keys, guidance, seed=0):
    """How many of the 100 name prompts have a nearest training picture of that name, and the pictures.

    `bank`: standardized latents of every training picture on white, [n, 4, 16, 16].
    """
    wanted = read("names.txt")
    found = torch.cat([
        pipeline.latents([p for _, p in wanted[s : s + 50]], seed + s, guidance=guidance) for s in range(0, len(wanted), 50)
    ])
    distance = torch.cdist(found.flatten(1).float(), bank.flatten(1).float())
    nearest = distance.argmin(1).tolist()
    misses = [(p, str(bank_keys[n])) for (key, p), n in zip(wanted, nearest) if bank_keys[n] != key]
    return len(wanted) - len(misses), misses, pipeline.decode(found), [p for _, p in wanted]


def background_colour(picture):
    """The palette name nearest to the picture's border (median of a 4-pixel frame's corners and edges)."""
    frame = np.concatenate([picture[:4].reshape(-1, 3), picture[-4:].reshape(-1, 3)])
    middle = np.median(frame, axis=0)
    distance = {n: float(np.square(middle - c).sum()) for n, c in captions.BACKGROUNDS.items()}
    return min(distance, key=distance.get)


def backgrounds(pipeline, guidance, seed=500):
    wanted = read("backgrounds.txt")
    pictures = pipeline.decode(pipeline.latents([p for _, p in wanted], seed, guidance=guidance))
    misses = [(p, background_colour(x)) for (colour, p), x in zip(wanted, pictures) if background_colour(x) != colour]
    return len(wanted) - len(misses), misses, pictures, [p for _, p in wanted]


def ordinary(pipeline, guidance, seed=900):
    wanted = [line[0] for line in read("ordinary.txt")]
    return pipeline.decode(pipeline.latents(wanted, seed, guidance=guidance)), wanted


def core(prompt):
    """A prompt without article, media and background words: what is compared with training phrases."""
    prompt = re.sub(r" on an? .* background$", "", prompt)
    return re.sub(r"^(a|an|the|some) ", "", prompt)


def overlap(concepts):
    """Which ordinary prompts' wording is, verbatim, a phrase that training draws for some picture."""
    phrases = captions.Phrases(concepts)
    known = set().union(*(phrases.every(k) for k in concepts))
    return [p for (p,) in read("ordinary.txt") if core(p) in known or core(p) + "s" in known]


def held_out(count, held=96):
    """Indices of the pictures that the autoencoder never trains on, of `count`."""
    return torch.randperm(count, generator=torch.Generator().manual_seed(7))[:held]


@torch.no_grad()
def held_out_psnr(pipeline, pixels):
    """Mean of per-picture PSNR of the held-out pictures over three backgrounds."""
    import compose

    values = []
    for colour in PSNR_BACKGROUNDS:
        for part in torch.from_numpy(pixels)[held_out(len(pixels))].split(16):
            n = len(part)
            behind = torch.tensor(colour, dtype=torch.uint8).expand(n, 3)
            x = compose.compose(part, behind, torch.zeros(n, dtype=torch.uint8), torch.zeros(n), torch.ones(n, 2))
            values.append(psnr(pipeline.autoencoder.decoder(pipeline.autoencoder.encoder(x)), x))
    return torch.cat(values).mean().item()


def psnr(a, b):
    """Per-picture PSNR in dB of pictures in [-1, 1], clamped as they would be saved."""
    error = ((a.clamp(-1, 1) - b.clamp(-1, 1)) / 2).square().flatten(1).mean(1)
    return -10 * error.clamp(min=1e-10).log10()


def all_measures(pipeline, bank, keys, out, guidances, label):
    """Every measure at every guidance; contact sheets under `out`; returns a dictionary for JSON."""
    report = {}
    for guidance in guidances:
        right, wrong, pictures, texts = names(pipeline, bank, keys, guidance)
        entry = {"names_right": right, "names_wrong": wrong}
        sheets = {"names": (pictures, texts)}
        right, wrong, pictures, texts = backgrounds(pipeline, guidance)
        entry |= {"backgrounds_right": right, "backgrounds_of": len(texts), "backgrounds_wrong": wrong}
        sheets["backgrounds"] = (pictures, texts)
        sheets["ordinary"] = ordinary(pipeline, guidance)
        for name, (pictures, texts) in sheets.items():
            sheet(pictures, 10, out / f"{label}-{name}-g{guidance:g}.png", texts)
        report[f"guidance {guidance:g}"] = entry
    return report


def against_float(quantized, trained, count=20):
    """PSNR, picture by picture, between both pipelines' pictures for the first name prompts."""
    texts = [p for _, p in read("names.txt")[:count]]
    a, b = (torch.from_numpy(p.decode(p.latents(texts, 0))).float() / 127.5 - 1 for p in (quantized, trained))
    values = sorted(psnr(a, b).tolist())
    return {"median": values[len(values) // 2], "two worst": values[:2], "of": len(values)}


def write_prompts(concepts):
    """The fixed prompts, drawn once from the concepts; refuses to change files that exist."""
    import random

    rng = random.Random(20261201)
    things = [k for k, c in concepts.items() if c.group not in ("symbols", "flags") and c.subgroup != "drawing"]
    things.sort()
    chosen = rng.sample(things, 100)
    plain = lambda key: ("an " if concepts[key].name[0] in "aeiou" else "a ") + concepts[key].name
    files = {
        "names.txt": [f"{key}\t{plain(key)}" for key in chosen],
        "backgrounds.txt": [
            f"{colour}\t{plain(key)} on a {colour} background"
            for colour in captions.BACKGROUNDS
            for key in rng.sample([t for t in things if concepts[t].group in ("animals-nature", "food-drink", "objects")], 4)
        ],
    }
    for name, lines in files.items():
        path = PROMPTS / name
        if path.exists():
            raise FileExistsError(f"{path} is fixed; remove it by hand to draw other prompts")
        path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    import data

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=Path, required=True, help="data.py's .npz")
    parser.add_argument("--gguf", type=Path)
    parser.add_argument("--weights", type=Path, help="train.py's folder: also compare the GGUF's pictures with its")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--guidance", type=float, nargs="+", default=[GUIDANCE])
    parser.add_argument("--write-prompts", action="store_true")
    a = parser.parse_args()
    pixels, styles, keys, concepts = data.load(a.pictures)
    if a.write_prompts:
        write_prompts(concepts)
        raise SystemExit
    import export

    pipeline = export.read(a.gguf)
    bank = export.bank(pipeline, pixels)
    a.out.mkdir(parents=True, exist_ok=True)
    report = all_measures(pipeline, bank, keys, a.out, a.guidance, "gguf")
    report["autoencoder_psnr_held_out"] = held_out_psnr(pipeline, pixels)
    if a.weights:
        report["psnr_against_float"] = against_float(pipeline, export.pipeline(*export.load(a.weights)))
    report["ordinary_verbatim_in_training"] = overlap(concepts)
    (a.out / "measures.json").write_text(json.dumps(report, indent=1))
    print(json.dumps(report, indent=1))
