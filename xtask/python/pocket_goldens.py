"""Writes the goldens of the built-in image model: pictures that its training code draws from the committed GGUF.

Owns the prompts and seeds. 20 DDIM steps, guidance 3, noise of `torch.manual_seed`, float32 on a CPU.
Each tensor is named PROMPT#SEED and holds [height, width, 3] bytes. Run by `cargo xtask golden`.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "models/pocket"))

import export
import torch
from safetensors.torch import save_file

PROMPTS = [("a slice of pizza", 900), ("a blue whale on a yellow background, 3d", 17)]


def main(folder):
    pipeline = export.read(ROOT / "models/pocket/pocket.gguf")
    pictures = {}
    for prompt, seed in PROMPTS:
        drawn = pipeline.decode(pipeline.latents([prompt], seed))
        pictures[f"{prompt}#{seed}"] = torch.from_numpy(drawn[0]).contiguous()
    save_file(pictures, str(Path(folder) / "pocket.safetensors"))


if __name__ == "__main__":
    main(sys.argv[1])
