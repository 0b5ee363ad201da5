"""Trains pocket on one GPU inside a wall-clock budget: autoencoder, then text encoder and denoiser together.

Owns the recipe: losses, learning rates, phases, what is saved. Each phase ends by the clock, and its
learning rate falls with the clock, so that a slower machine trains less but always finishes.
"""

import argparse
import json
import math
import subprocess
import sys
import tarfile
import time
from pathlib import Path

START = time.time()

import numpy as np
import sentencepiece
import torch
from safetensors.torch import load_file, save_file

import autoencoder
import captions
import compose
import data
import measure
import muon
import pixart
import schedule
import t5

NULL_CAPTIONS = 0.1  # share of captions emptied, for classifier-free guidance
LATENT_NOISE = 0.14  # the decoder sees noise of 0 to this many units, as a denoiser's errors are
ENCODE_BATCH = 1024
ENCODE_SECONDS = 25  # samples not encoded by then are left out


def clock():
    return time.time() - START


class Samples:
    """Pictures and what captions.py says of them, on the device."""

    def __init__(self, pictures, captions, device, limit=None):
        pixels, self.styles, self.keys, self.concepts = data.load(pictures)
        self.pixels = torch.from_numpy(pixels).to(device)
        file = np.load(captions)
        put = lambda name, dtype: torch.from_numpy(file[name][:limit].astype(dtype)).to(device)
        self.picture, self.background = put("picture", np.int64), put("background", np.uint8)
        self.paint, self.tokens = put("paint", np.uint8), put("tokens", np.int16)
        self.hue = torch.from_numpy(file["hue"]).to(device)
        self.level = torch.from_numpy(file["level"]).to(device)
        self.tokenizer = file["tokenizer"].tobytes()
        self.held = measure.held_out(len(pixels)).to(device)
        shown = torch.ones(len(pixels), dtype=torch.bool, device=device)
        shown[self.held] = False
        self.shown = shown[self.picture].nonzero().squeeze(1)

    def __len__(self):
        return len(self.picture)

    def parts(self, rows):
        """What `compose.compose` takes, for these samples."""
        p = self.picture[rows]
        return self.pixels[p], self.background[rows], self.paint[rows], self.hue[p], self.level[p]

    def plain(self, pictures, background):
        """The same for pictures as they are, over one colour."""
        n, device = len(pictures), self.pixels.device
        colour = torch.tensor(background, dtype=torch.uint8, device=device).expand(n, 3)
        return self.pixels[pictures], colour, torch.zeros(n, dtype=torch.uint8, device=device), self.hue[pictures], self.level[pictures]


def rate_at(fraction, peak, warm=0.02, hold=0.5):
    """Linear rise, constant, then a half cosine to zero, over the phase's share of time that has passed."""
    if fraction < warm:
        return peak * fraction / warm
    if fraction < hold:
        return peak
    return peak * 0.5 * (1 + math.cos(math.pi * min(1.0, (fraction - hold) / (1 - hold))))


def autoencoder_loss(model, parts, noise, square=4.0):
    """L1, squared error (`square` times) and the L1 of differences between neighbours (edges), plus a bound on latents."""
    pictures = compose.compose(*parts).contiguous(memory_format=torch.channels_last)
    z = model.encoder(pictures)
    y = model.decoder(z + noise).float()
    error = y - pictures
    across, down = error[..., 1:] - error[..., :-1], error[..., 1:, :] - error[..., :-1, :]
    bound = torch.relu(z.float().abs() - 2.5).square().mean()
    return error.abs().mean() + square * error.square().mean() + 0.5 * (across.abs().mean() + down.abs().mean()) + bound


def denoiser_loss(text, denoiser, clean, noise, t, tokens, table):
    real = tokens != 0
    noisy, v = schedule.add_noise(clean, noise, t, table)
    return (denoiser(noisy, t, text(tokens, real), real).float() - v).square().mean()


class Timer:
    """Steps and rate for the log, without a device synchronization each step."""

    def __init__(self, name, every):
        self.name, self.every, self.begun, self.steps, self.log = name, every, None, 0, []

    def tick(self, loss):
        self.steps += 1
        if self.steps == 10:
            loss.item()
            self.begun = time.time()
        if self.steps % self.every == 0:
            value = loss.item()
            pace = (self.steps - 10) / (time.time() - self.begun) if self.steps > 10 else 0.0
            self.log.append((round(clock(), 1), self.steps, round(value, 5), round(pace, 1)))
            print(f"{clock():6.1f} s  {self.name} step {self.steps}  loss {value:.5f}  {pace:.1f} it/s", flush=True)


def autocast(device):
    return torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda")


def train_autoencoder(samples, a, device):
    model = autoencoder.Autoencoder().to(device).to(memory_format=torch.channels_last)
    matrices, others = muon.split(model, ("encoder.layers.0.", f"decoder.layers.{len(model.decoder.layers) - 1}."))
    optimizer = muon.Optimizer(matrices, others, decay=0.0)
    loss_of = torch.compile(autoencoder_loss) if a.compile else autoencoder_loss
    timer, begun = Timer("autoencoder", a.log_every), clock()
    while clock() < a.autoencoder_until and timer.steps < a.max_steps:
        rows = samples.shown[torch.randint(len(samples.shown), (a.autoencoder_batch,), device=device)]
        noise = torch.randn(a.autoencoder_batch, 4, 16, 16, device=device)
        noise *= LATENT_NOISE * torch.rand(a.autoencoder_batch, 1, 1, 1, device=device)
        with autocast(device):
            loss = loss_of(model, samples.parts(rows), noise)
        loss.backward()
        if timer.steps == 5:
            begun = clock()  # compilation is not part of the phase
        fraction = (clock() - begun) / max(a.autoencoder_until - begun, 1e-3)
        optimizer.step(rate_at(max(fraction, 0.002), a.autoencoder_rate))
        optimizer.zero_grad()
        timer.tick(loss.detach())
    return model.eval(), timer


def refine_decoder(samples, a, device, note):
    """More training for a saved decoder alone: the encoder is frozen, so a denoiser made for its latents stays right.

    Large batches without compilation: a step is long enough here to hide the launches.
    """
    model = autoencoder.Autoencoder().to(device).to(memory_format=torch.channels_last)
    saved = load_file(a.refine)
    model.load_state_dict({k.removeprefix("vae."): v.float() for k, v in saved.items() if k.startswith("vae.")})
    model.encoder.requires_grad_(False)
    note(psnr_before=autoencoder_psnr(model, samples, samples.held))
    matrices, others = muon.split(model.decoder, ("layers.0.", f"layers.{len(model.decoder.layers) - 1}."))
    optimizer = muon.Optimizer(matrices, others, decay=0.0)
    timer, begun = Timer("decoder", a.log_every), clock()
    while clock() < a.autoencoder_until and timer.steps < a.max_steps:
        rows = samples.shown[torch.randint(len(samples.shown), (a.autoencoder_batch,), device=device)]
        noise = torch.randn(a.autoencoder_batch, 4, 16, 16, device=device)
        noise *= 0.6 * LATENT_NOISE * torch.rand(a.autoencoder_batch, 1, 1, 1, device=device)
        with autocast(device):
            loss = autoencoder_loss(model, samples.parts(rows), noise, square=12.0)
        loss.backward()
        optimizer.step(rate_at((clock() - begun) / (a.autoencoder_until - begun), a.autoencoder_rate, warm=0.05, hold=0.3))
        optimizer.zero_grad()
        timer.tick(loss.detach())
        if device == "cuda" and timer.steps % 4 == 0:
            torch.cuda.synchronize()  # else the clock runs ahead of the device
    save_file({k: v.detach().half().contiguous().cpu() for k, v in model.decoder.state_dict().items()}, a.out / "decoder.safetensors")
    note(
        decoder_steps=timer.steps, decoder_log=timer.log, decoder_done_at=clock(),
        psnr_held_out=autoencoder_psnr(model, samples, samples.held),
        psnr_some_pictures=autoencoder_psnr(model, samples, torch.arange(0, len(samples.pixels), 37, device=device)),
    )
    reconstructions(model, samples, a.out / "autoencoder.png")


@torch.no_grad()
def reconstructions(model, samples, path):
    """A sheet of twenty held-out pictures above their reconstructions."""
    x = compose.compose(*samples.plain(samples.held[:20], (255, 255, 255)))
    both = torch.cat([x, model.decoder(model.encoder(x))]).permute(0, 2, 3, 1)
    measure.sheet(((both + 1) * 127.5).clamp(0, 255).round().byte().cpu().numpy(), 20, path)


@torch.no_grad()
def autoencoder_psnr(model, samples, pictures):
    """Mean of per-picture PSNR over three backgrounds, in float32."""
    values = []
    for colour in measure.PSNR_BACKGROUNDS:
        for part in pictures.split(64):
            x = compose.compose(*samples.plain(part, colour))
            values.append(measure.psnr(model.decoder(model.encoder(x)), x))
    return torch.cat(values).mean().item()


def encode(model, parts):
    return model.encoder(compose.compose(*parts).contiguous(memory_format=torch.channels_last)).float()


@torch.no_grad()
def encode_all(model, samples, a, device):
    """Standardized latents of the samples, their statistics, and of every picture on white.

    Leaves out whole batches past ENCODE_SECONDS; whoever draws samples must draw below `len(latents)`.
    """
    run = torch.compile(encode) if a.compile else encode
    chunks, begun = [], None
    for rows in torch.arange(len(samples), device=device).split(ENCODE_BATCH):
        if len(rows) < ENCODE_BATCH and chunks:
            break  # a second shape would be compiled for it
        with autocast(device):
            chunks.append(run(model, samples.parts(rows)).half())
        if len(chunks) % 16 == 1 and device == "cuda":
            torch.cuda.synchronize()
        begun = begun or clock()
        if clock() - begun > ENCODE_SECONDS:
            break
    latents = torch.cat(chunks)
    some = latents[:50_000].float()
    mean, deviation = some.mean((0, 2, 3)), some.std((0, 2, 3))
    shape = (1, -1, 1, 1)
    for chunk in latents.split(50_000):
        chunk.copy_((chunk.float() - mean.view(shape)) / deviation.view(shape))
    pictures = torch.arange(len(samples.pixels), device=device)
    bank = torch.cat([encode(model, samples.plain(p, (255, 255, 255))) for p in pictures.split(256)])
    return latents, mean, deviation, (bank - mean.view(shape)) / deviation.view(shape)


def train_denoiser(samples, latents, a, device, checkpoint):
    text, denoiser = t5.T5Encoder().to(device), pixart.PixArt().to(device)
    adam_names = ("shared", "relative_attention_bias", "adaln_single", "scale_shift_table", "pos_embed", "proj_out")
    pairs = [muon.split(m, adam_names) for m in (text, denoiser)]
    optimizer = muon.Optimizer([p for m, _ in pairs for p in m], [p for _, o in pairs for p in o], decay=0.01)
    live = [*text.parameters(), *denoiser.parameters()]
    average = [p.detach().clone() for p in live]
    table = schedule.alphas_cumprod(device)
    loss_of = torch.compile(denoiser_loss) if a.compile else denoiser_loss
    timer, begun, saved = Timer("denoiser", a.log_every), clock(), False
    strata = torch.arange(a.batch, device=device)
    wordings, length = samples.tokens.shape[1:]
    empty = torch.zeros(length, dtype=torch.int16, device=device)
    empty[0] = 1
    running = torch.zeros((), device=device)
    while clock() < a.denoiser_until and timer.steps < a.max_steps:
        rows = torch.randint(len(latents), (a.batch,), device=device)
        tokens = samples.tokens[rows, torch.randint(wordings, (a.batch,), device=device)]
        dropped = torch.rand(a.batch, 1, device=device) < NULL_CAPTIONS
        tokens = torch.where(dropped, empty, tokens).long()
        # One timestep from each of `batch` equal strata: less variance than independent draws.
        t = ((strata + torch.rand(a.batch, device=device)) * (schedule.STEPS / a.batch)).long().clamp(max=schedule.STEPS - 1)
        clean = latents[rows].float()
        with autocast(device):
            loss = loss_of(text, denoiser, clean, torch.randn_like(clean), t, tokens, table)
        loss.backward()
        if timer.steps == 5:
            begun = clock()
        fraction = (clock() - begun) / max(a.denoiser_until - begun, 1e-3)
        optimizer.step(rate_at(max(fraction, 0.002), a.rate, hold=0.4))
        optimizer.zero_grad()
        with torch.no_grad():
            torch._foreach_lerp_(average, live, 1 - min(0.999, timer.steps / (timer.steps + 10)))
            running.lerp_(loss.detach(), 0.01 if timer.steps > 100 else 0.1)
        timer.tick(running)
        if fraction > 0.6 and not saved:
            saved = True
            checkpoint(text, denoiser)
    with torch.no_grad():
        for p, mean in zip(live, average):
            p.copy_(mean)
    return text.eval(), denoiser.eval(), timer


class Nothing:
    """Stands in for `Samples` where only shapes matter."""

    def __init__(self, device):
        self.tokens = torch.ones(64, 2, captions.LENGTH, dtype=torch.int16, device=device)

    def parts(self, rows):
        n, device = len(rows), rows.device
        pixels = torch.zeros(n, data.SIZE, data.SIZE, 4, dtype=torch.uint8, device=device)
        colour, paint = torch.zeros(n, 3, dtype=torch.uint8, device=device), torch.zeros(n, dtype=torch.uint8, device=device)
        return pixels, colour, paint, torch.zeros(n, device=device), torch.ones(n, 2, device=device)


def compile_ahead(a, device):
    """Fills the compiler's cache on disk, in a second process, while the first trains the autoencoder."""
    a.max_steps, a.denoiser_until = 2, 1e9
    latents = torch.zeros(64, 4, 16, 16, device=device, dtype=torch.half)
    train_denoiser(Nothing(device), latents, a, device, lambda *parts: None)
    model = autoencoder.Autoencoder().to(device).to(memory_format=torch.channels_last).eval()
    run = torch.compile(encode) if a.compile else encode
    with torch.no_grad(), autocast(device):
        run(model, Nothing(device).parts(torch.arange(ENCODE_BATCH if a.compile else 8, device=device)))
    print(f"{clock():6.1f} s  compiled ahead", flush=True)


def save(out, text, denoiser, model, mean, deviation, tokenizer):
    """Half-precision safetensors; the denoiser in two files, since one would pass 16 MiB."""
    half = lambda module, prefix="": {prefix + k: v.detach().half().contiguous().cpu() for k, v in module.state_dict().items()}
    whole = half(denoiser)
    late = {k: v for k, v in whole.items() if any(k.startswith(f"transformer_blocks.{n}.") for n in (3, 4, 5))}
    save_file({k: v for k, v in whole.items() if k not in late}, out / "denoiser-1.safetensors")
    save_file(late, out / "denoiser-2.safetensors")
    rest = half(text, "text_encoder.") | half(model, "vae.")
    rest |= {"latents.mean": mean.float().cpu(), "latents.deviation": deviation.float().cpu()}
    rest["tokenizer"] = torch.frombuffer(bytearray(tokenizer), dtype=torch.uint8)
    save_file(rest, out / "rest.safetensors")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=Path, required=True, help="data.py's .npz")
    parser.add_argument("--captions", type=Path, required=True, help="captions.py's .npz")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--autoencoder-until", type=float, default=140, help="seconds since the start")
    parser.add_argument("--denoiser-until", type=float, default=545)
    parser.add_argument("--autoencoder-batch", type=int, default=64)
    parser.add_argument("--autoencoder-rate", type=float, default=2e-3)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--max-steps", type=int, default=10**9)
    parser.add_argument("--limit", type=int, help="use only this many samples (for trials)")
    parser.add_argument("--log-every", type=int, default=500)
    parser.add_argument("--guidance", type=float, nargs="+", default=[2.5, 4.0])
    parser.add_argument("--no-compile", dest="compile", action="store_false")
    parser.add_argument("--refine", type=Path, help="a rest.safetensors: train its decoder on and do nothing else")
    parser.add_argument("--only-compile", action="store_true", help="fill the compiler's cache and stop")
    a = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    if a.only_compile:
        compile_ahead(a, device)
        return
    if a.compile and device == "cuda" and not a.refine:
        subprocess.Popen([sys.executable, *sys.argv, "--only-compile"])
    a.out.mkdir(parents=True, exist_ok=True)
    sheets = a.out / "sheets"
    sheets.mkdir(exist_ok=True)
    report = {"device": torch.cuda.get_device_name() if device == "cuda" else "cpu", "arguments": {k: str(v) for k, v in vars(a).items()}}

    def note(**facts):
        report.update(facts)
        (a.out / "report.json").write_text(json.dumps(report, indent=1))
        print(f"{clock():6.1f} s ", {k: v for k, v in facts.items() if not k.endswith("log")}, flush=True)

    samples = Samples(a.pictures, a.captions, device, a.limit)
    note(pictures=len(samples.pixels), samples=len(samples), loaded_at=clock())
    if a.refine:
        refine_decoder(samples, a, device, note)
        return

    model, timer = train_autoencoder(samples, a, device)
    rest = torch.arange(0, len(samples.pixels), 37, device=device)
    note(
        autoencoder_steps=timer.steps, autoencoder_log=timer.log, autoencoder_done_at=clock(),
        psnr_held_out=autoencoder_psnr(model, samples, samples.held), psnr_some_pictures=autoencoder_psnr(model, samples, rest),
    )
    reconstructions(model, samples, sheets / "autoencoder.png")

    latents, mean, deviation, bank = encode_all(model, samples, a, device)
    note(encoded_at=clock(), encoded=len(latents), latent_mean=mean.tolist(), latent_deviation=deviation.tolist())
    keep = lambda text, denoiser: save(a.out, text, denoiser, model, mean, deviation, samples.tokenizer)
    text, denoiser, timer = train_denoiser(samples, latents, a, device, keep)
    keep(text, denoiser)
    note(denoiser_steps=timer.steps, denoiser_log=timer.log, denoiser_done_at=clock(), denoiser_loss=timer.log[-1][2] if timer.log else None)

    processor = sentencepiece.SentencePieceProcessor(model_proto=samples.tokenizer)
    pipeline = measure.Pipeline(processor, text, denoiser, model, mean, deviation)
    for guidance in a.guidance:
        note(**measure.all_measures(pipeline, bank, samples.keys, sheets, [guidance], "float"))
        with tarfile.open(a.out / "sheets.tar", "w") as tar:
            tar.add(sheets.resolve(), "sheets")
    note(done_at=clock())


if __name__ == "__main__":
    main()
