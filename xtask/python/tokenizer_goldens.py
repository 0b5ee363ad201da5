"""Writes the goldens of tokenizers: texts and the ids that SentencePiece gives them.

Owns the texts. The vocabulary is that of models/pocket/pocket.gguf. Run by `cargo xtask golden`.
"""

import json
import random
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "models/pocket"))

import gguf
import sentencepiece
from export import tokenizer_of

TEXTS = [
    "", " ", "   ", "a slice of pizza", "A Slice  of   PIZZA ", "\u2581", "x \u2581", "hot air balloon on a blue background",
    "one\ttwo\nthree", "caf\u00e9 \u65e5\u672c\u8a9e \U0001f355", "\u0130stanbul \u039f\u0394\u039f\u03a3", "!!!???###", "a" * 60,
    "a very long prompt, " * 9, "3d, flat; noto-style 'quoted' 0123456789", "e\u0301 \u00a0x\u3000y", "\u65e5a\u672c b\u8a9e",
]


def random_texts(pieces, count, rng):
    """Texts of pieces and stray letters in any order: splits that have rivals."""
    letters = "abcdefghijklmnopqrstuvwxyz  ,.'-\u00e9\u4e00"
    for _ in range(count):
        parts = [rng.choice(pieces) if rng.random() < 0.6 else rng.choice(letters) for _ in range(rng.randint(1, 14))]
        yield "".join(parts).replace("\u2581", " ")


def main(folder):
    reader = gguf.GGUFReader(ROOT / "models/pocket/pocket.gguf")
    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer_of(reader))
    pieces = [processor.id_to_piece(i) for i in range(3, processor.get_piece_size())]
    texts = TEXTS + list(random_texts(pieces, 150, random.Random(5)))
    rows = [{"text": t, "ids": (processor.encode(t.lower())[:23] + [1])} for t in texts]
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    (Path(folder) / "pocket.json").write_text(f"[\n{lines}\n]\n")


main(sys.argv[1])
