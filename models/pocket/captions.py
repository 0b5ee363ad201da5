"""What is said about each picture: captions, the picture variants that they describe, the tokenizer.

Owns phrases, templates, colours and the SentencePiece model. Draws nothing: a sample names a picture,
a background and a colour to repaint it in, and compose.py makes the pixels.
"""

import argparse
import collections
import io
import json
import random
import re
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
LENGTH = 24  # tokens a caption, end token included
VOCABULARY = 2560

BACKGROUNDS = {
    "white": (255, 255, 255), "black": (18, 18, 18), "gray": (150, 150, 150), "red": (222, 50, 50),
    "orange": (245, 150, 50), "yellow": (250, 215, 70), "green": (70, 170, 80), "blue": (60, 110, 220),
    "purple": (140, 80, 190), "pink": (245, 160, 195), "brown": (130, 85, 55), "teal": (40, 150, 150),
    "light blue": (160, 210, 245), "dark blue": (25, 40, 95), "light green": (175, 225, 160),
    "beige": (240, 225, 195),
}
# What a picture can be repainted in; compose.py knows how. Index 0 is "as it is".
PAINTS = ["", "red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "white", "gray"]
COLOUR_WORDS = re.compile(r"\b(red|orange|yellow|green|blue|purple|pink|brown|black|white|gray|grey|golden|gold)\b")
UNPAINTED_GROUPS = {"people-body", "flags", "symbols"}
# Words that promise nothing visible: the model should learn to read past them.
FILLERS = (
    "cute little small nice beautiful simple lovely old big modern new pretty tiny fun classic cool single "
    "colorful detailed shiny cozy fresh delicious great"
).split()
STYLE_WORDS = {
    0: ["noto", "noto style", "noto emoji"],
    1: ["3d", "3d style", "3d rendered"],
    2: ["flat", "flat style", "flat design", "2d"],
}
MEDIA = ["picture", "image", "icon", "drawing", "illustration", "emoji", "photo", "clipart"]
GROUP_WEIGHT = {"people-body": 0.6, "smileys-emotion": 0.8, "symbols": 0.5, "flags": 0.6}


def synonyms():
    """The hand-written phrases by concept key."""
    table = {}
    for line in (HERE / "synonyms.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            key, phrases = line.split(":", 1)
            table[key] = [p.strip() for p in phrases.split(",") if p.strip()]
    return table


class Phrases:
    """Names one concept in many ways, the commoner ways more often."""

    def __init__(self, concepts):
        self.concepts = concepts
        self.by_hand = synonyms()
        unknown = sorted(set(self.by_hand) - set(concepts))
        if unknown:
            raise ValueError(f"synonyms.txt names concepts that data.py did not keep: {unknown}")
        uses = collections.Counter(tag for c in concepts.values() for tag in set(c.tags))
        # A tag that many concepts share says little about any one of them.
        self.tags = {k: ([*c.tags], [uses[t] ** -1.5 for t in c.tags]) for k, c in concepts.items()}
        self.others = {k: [s for s in c.shortcodes if s != c.name] for k, c in concepts.items()}

    def draw(self, key, rng):
        name = self.concepts[key].name
        kind = rng.random()
        if kind < 0.40:
            return name
        if kind < 0.66 and key in self.by_hand:
            phrases = self.by_hand[key]
            return rng.choices(phrases, [1 / (1 + 0.3 * n) for n in range(len(phrases))])[0]
        if kind < 0.76 and self.others[key]:
            return rng.choice(self.others[key])
        words, weights = self.tags[key]
        if kind < 0.86 and words:
            return rng.choices(words, weights)[0]
        if kind < 0.92 and words:
            return f"{name} {rng.choices(words, weights)[0]}"
        parts = name.split()
        if kind < 0.96 and len(parts) > 2:
            parts.pop(rng.randrange(len(parts)))
        return " ".join(parts)

    def every(self, key):
        """Every phrase that can be drawn whole, for checks against held-out prompts."""
        return {self.concepts[key].name, *self.by_hand.get(key, []), *self.others[key], *self.tags[key][0]}


def article(phrase, rng):
    """"a"/"an" (70 %), "the", or none."""
    kind = rng.random()
    if kind < 0.7:
        return ("an " if phrase[0] in "aeiou" else "a ") + phrase
    return ("the " if kind < 0.76 else "") + phrase


def caption(phrase, style, paint, natural, background, rng):
    """One caption; `background` is a colour name or None, `natural` the picture's own colour or None."""
    colour = PAINTS[paint] or (natural if natural and rng.random() < 0.15 else None)
    if PAINTS[paint]:
        phrase = COLOUR_WORDS.sub("", phrase)
        phrase = re.sub(r" +", " ", phrase).strip() or "thing"
    elif colour and COLOUR_WORDS.search(phrase):
        colour = None
    if colour:
        phrase = f"{colour} {phrase}" if rng.random() < 0.9 else f"{phrase} in {colour}"
    if rng.random() < 0.12:
        phrase = f"{rng.choice(FILLERS)} {phrase}"
    if rng.random() < 0.4:
        word = rng.choice(STYLE_WORDS[style])
        kind = rng.random()
        if kind < 0.4:
            text = article(f"{word} {phrase}", rng)
        elif kind < 0.6:
            text = f"{article(f'{word} {rng.choice(MEDIA)}', rng)} of {article(phrase, rng)}"
        elif kind < 0.8:
            text = f"{article(phrase, rng)} in {STYLE_WORDS[style][1]}"
        else:
            text = f"{article(phrase, rng)}, {word}"
    else:
        text = article(phrase, rng)
        if rng.random() < 0.12:
            text = f"{article(rng.choice(MEDIA), rng)} of {text}"
    if background:
        form = rng.random()
        if form < 0.6:
            text += f" on a {background} background"
        elif form < 0.8:
            text += f", {background} background"
        elif form < 0.9:
            text += f" on {background}"
        else:
            text = f"{background} background, {text}"
    return text.replace("a orange", "an orange")


def train_tokenizer(texts):
    """A unigram model, T5's special ids (pad 0, end 1, unknown 2); returns the serialized model."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=model, model_type="unigram", vocab_size=VOCABULARY,
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1, normalization_rule_name="identity",
        character_coverage=1.0, hard_vocab_limit=True, minloglevel=2, num_threads=2,
        required_chars="abcdefghijklmnopqrstuvwxyz0123456789,.'-",
    )
    return model.getvalue()


def encode(processor, texts):
    """Token ids [n, LENGTH] with the end token last and padding (0) after it. Prompts are lower-cased."""
    out = np.zeros((len(texts), LENGTH), np.uint16)
    for row, ids in enumerate(processor.encode([t.lower() for t in texts])):
        ids = ids[: LENGTH - 1] + [1]
        out[row, : len(ids)] = ids
    return out


def build(pictures, out, count, wordings, seed):
    """Write `out` (.npz): per sample a picture, background, paint and `wordings` captions as tokens."""
    import sentencepiece
    import compose
    import data

    pixels, styles, keys, concepts = data.load(pictures)
    tints = compose.tints(pixels)
    phrases, rng = Phrases(concepts), random.Random(seed)
    only = collections.Counter(keys)
    weights = [
        GROUP_WEIGHT.get(concepts[k].group, 1.0) * (1.3 if k in phrases.by_hand else 1.0) * (3.0 if only[k] == 1 else 1.0)
        for k in keys
    ]
    chosen = rng.choices(range(len(keys)), weights, k=count)
    names = list(BACKGROUNDS)
    background = np.zeros((count, 3), np.uint8)
    paints = np.zeros(count, np.uint8)
    texts = []
    for row, picture in enumerate(chosen):
        key = str(keys[picture])
        named = rng.choice(names) if rng.random() < 0.55 else None
        jitter = [rng.randint(-6, 6) for _ in range(3)] if named and named != "white" else [0] * 3
        background[row] = np.clip(np.add(BACKGROUNDS[named or "white"], jitter), 0, 255)
        tint = tints[picture]
        paint = 0
        if tint.paintable and concepts[key].group not in UNPAINTED_GROUPS and rng.random() < 0.25:
            paint = rng.randrange(1, len(PAINTS))
        paints[row] = paint
        for _ in range(wordings):
            texts.append(caption(phrases.draw(key, rng), int(styles[picture]), paint, tint.colour, named, rng))
    tokenizer = train_tokenizer(rng.sample(texts, min(len(texts), 200_000)))
    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer)
    tokens = encode(processor, texts)
    np.savez_compressed(
        out, picture=np.array(chosen, np.uint16), background=background, paint=paints,
        tokens=tokens.reshape(count, wordings, LENGTH), tokenizer=np.frombuffer(tokenizer, np.uint8),
        hue=np.array([t.hue for t in tints], np.float32), level=np.array([t.level for t in tints], np.float32),
    )
    lengths = (tokens > 0).sum(1)
    return {
        "samples": count, "captions": len(texts), "distinct": len(set(texts)),
        "paintable": sum(t.paintable for t in tints), "repainted": int((paints > 0).sum()),
        "tokens": {"mean": float(lengths.mean()), "full": int((lengths == LENGTH).sum()), "99.9 %": float(np.quantile(lengths, 0.999))},
        "examples": rng.sample(texts, 40),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=Path, required=True, help="data.py's .npz")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int, default=400_000)
    parser.add_argument("--wordings", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args()
    print(json.dumps(build(a.pictures, a.out, a.count, a.wordings, a.seed), indent=1))
