"""One picture by models/pocket's PyTorch code from the committed GGUF, timed by phase. Prints JSON.

Usage: torch_image.py PROMPT THREADS. Owns the peer's side of `cargo xtask bench image`: 20 DDIM steps,
guidance 3, float32. Loading counts from the GGUF's bytes to modules; importing Python packages does not count.
"""

import json
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
sys.path.insert(0, str(ROOT / "models/pocket"))

import export
import torch


def main(prompt, threads):
    torch.set_num_threads(threads)
    times = {}

    def timed(name, work):
        began = time.perf_counter()
        result = work()
        times[name] = time.perf_counter() - began
        return result

    pipeline = timed("load", lambda: export.read(ROOT / "models/pocket/pocket.gguf"))
    with torch.no_grad():
        timed("text", lambda: pipeline.encode([prompt, ""], "cpu"))
    # The text is encoded a second time within: a hundredth of it.
    latents = timed("denoise", lambda: pipeline.latents([prompt], 900))
    times["denoise"] -= times["text"]
    timed("decode", lambda: pipeline.decode(latents))
    print(json.dumps({"timings": times}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
