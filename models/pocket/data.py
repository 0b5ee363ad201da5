"""The pictures: which packages they come from, which of them are kept, and how they are rendered.

Owns fetching (npm, pinned versions), selection by Unicode group, and rendering to 128x128 RGBA.
Knows nothing of captions (captions.py) or of the networks.
"""

import argparse
import collections
import io
import json
import re
import subprocess
import tarfile
from dataclasses import dataclass
from multiprocessing import Pool
from pathlib import Path

import numpy as np

# Pinned: a later version may add, drop or redraw pictures, and the figures in README.md are for these.
PACKAGES = {
    "noto": ("@iconify-json/noto", "1.2.9"),  # Apache-2.0
    "3d": ("@iconify-json/fluent-emoji", "1.2.7"),  # MIT
    "flat": ("@iconify-json/fluent-emoji-flat", "1.2.6"),  # MIT
}
METADATA = ("emojibase-data", "17.0.0")  # MIT: labels, tags, shortcodes, groups
STYLES = list(PACKAGES)
SIZE = 128  # pixels a side
ART = 112  # the drawing's own size, centred; rendered at this size rather than resampled to it

# Emojibase's subgroups that are signs to read rather than things to see.
DROPPED_SUBGROUPS = {
    "country-flag", "subdivision-flag", "keycap", "arrow", "av-symbol", "alphanum", "math",
    "punctuation", "currency", "gender", "transport-sign", "zodiac", "religion", "skin-tone",
    "hair-style", "family", "person-symbol",
}
# In these, "man X" and "woman X" repeat "person X" with a detail of a few pixels.
GENDERLESS_SUBGROUPS = {
    "person-gesture", "person-activity", "person-resting", "person-sport", "person-role", "person-fantasy",
}
DROPPED_NAMES = re.compile(
    r"(o-clock|oclock|-thirty|-button|facing-right|^letter-|^digit-|tone\d|-hair$|-haired$|-beard$"
    r"|^no-|^hollow-|^(large|medium|small|medium-small)-.*-(square|diamond|circle)$|input|-skin-tone"
    r"|^japanese-.*|ideograph|chart-increasing-with-yen|-with-bunny-ears|couple-with-heart-|kiss-(man|woman)"
    r"|-wrestling$|holding-hands$|prohibited|-symbol$|curly-loop|trade-mark|copyright|registered"
    r"|part-alternation|trident-emblem|fleur-de-lis|^keycap|^pound$|^asterisk$|^\d$|wavy-dash|^name-badge$)"
)
SKIN_TONE = re.compile(r"-(light|dark|medium|default|tone\d?)(-|$)")
# Older or shorter names that the packages use, and the label that Unicode uses now.
RENAMED = {
    "hugging-face": "smiling-face-with-open-hands",
    "knocked-out-face": "face-with-crossed-out-eyes",
    "pouting-face": "enraged-face",
    "phoenix-bird": "phoenix",
    "piata": "pinata",
    "person-fairy": "fairy",
    "person-elf": "elf",
    "person-genie": "genie",
    "person-mage": "mage",
    "person-merpeople": "merperson",
    "person-superhero": "superhero",
    "person-supervillain": "supervillain",
    "person-vampire": "vampire",
    "person-zombie": "zombie",
    "blackbird": "black-bird",
    "on-exclamation-arrow": "on-arrow",
}
# Noto's extras that no Unicode label names but that are things worth having.
EXTRAS = {"lighthouse", "meteor", "pickle", "monarch-butterfly", "eraser"}
# Our own drawings of everyday things that Unicode lacks; they join the flat style.
DRAWINGS = Path(__file__).parent / "drawings"


@dataclass
class Concept:
    """One thing that can be asked for: its name, other words for it, and where it stands in Unicode."""

    name: str
    tags: list
    shortcodes: list
    group: str
    subgroup: str


def slug(label):
    """Iconify's spelling of a Unicode label."""
    table = str.maketrans("ñãéôåçí", "naeoaci", "'’“”.")
    return re.sub(r"[^a-z0-9]+", "-", label.lower().translate(table)).strip("-")


def fetch(folder):
    """Download and unpack the pinned packages below `folder`; does nothing where they are already."""
    folder.mkdir(parents=True, exist_ok=True)
    for package, version in [*PACKAGES.values(), METADATA]:
        target = folder / package.split("/")[-1]
        if target.exists():
            continue
        subprocess.run(["npm", "pack", "--silent", f"{package}@{version}"], cwd=folder, check=True)
        archive = folder / f"{package.strip('@').replace('/', '-')}-{version}.tgz"
        with tarfile.open(archive) as tar:
            tar.extractall(folder / "unpacking", filter="data")
        (folder / "unpacking" / "package").rename(target)


def concepts(folder):
    """Every kept Unicode label by its slug."""
    root = folder / METADATA[0]
    groups = json.loads((root / "meta/groups.json").read_text())
    codes = [
        json.loads((root / f"en/shortcodes/{kind}.json").read_text())
        for kind in ("emojibase", "github", "iamcal", "joypixels", "cldr")
    ]
    found = {}
    for entry in json.loads((root / "en/data.json").read_text()):
        if "subgroup" not in entry:
            continue
        subgroup = groups["subgroups"][str(entry["subgroup"])]
        key = slug(entry["label"])
        if subgroup in DROPPED_SUBGROUPS or DROPPED_NAMES.search(key):
            continue
        if subgroup in GENDERLESS_SUBGROUPS and re.match(r"(wo)?m[ae]n-", key):
            continue
        shortcodes = []
        for table in codes:
            value = table.get(entry["hexcode"], [])
            shortcodes += [value] if isinstance(value, str) else value
        words = [re.sub(r"[_-]+", " ", code).strip() for code in shortcodes]
        words = [w for w in dict.fromkeys(words) if re.fullmatch(r"[a-z][a-z ]+", w) and len(w) > 2]
        found[key] = Concept(
            name=re.sub(r"[^a-z0-9]+", " ", entry["label"].lower().replace("’", "").replace("ñ", "n")).strip(),
            tags=[t.lower() for t in entry.get("tags", []) if re.fullmatch(r"[A-Za-z][A-Za-z -]{2,}", t)],
            shortcodes=words,
            group=groups["groups"][str(entry["group"])],
            subgroup=subgroup,
        )
    for key in EXTRAS:
        found.setdefault(key, Concept(key.replace("-", " "), [], [], "objects", "other-object"))
    return found


def select(folder):
    """The kept pictures: a list of (style, concept key, svg text), and the concepts by key."""
    known = concepts(folder)
    pictures, seen = [], collections.Counter()
    for style, (package, _) in PACKAGES.items():
        icons = json.loads((folder / package.split("/")[-1] / "icons.json").read_text())
        taken = set()
        for name, icon in sorted(icons["icons"].items()):
            key = RENAMED.get(name, name)
            if SKIN_TONE.search(name) or key not in known or key in taken:
                continue
            taken.add(key)
            seen[key] += 1
            left, top = icon.get("left", 0), icon.get("top", 0)
            width = icon.get("width", icons.get("width", 16))
            height = icon.get("height", icons.get("height", 16))
            svg = (
                f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
                f'width="{ART}" height="{ART}" viewBox="{left} {top} {width} {height}">{icon["body"]}</svg>'
            )
            pictures.append((style, key, svg))
    for path in sorted(DRAWINGS.glob("*.svg")):
        known[path.stem] = Concept(path.stem.replace("-", " "), [], [], "objects", "drawing")
        seen[path.stem] += 1
        pictures.append(("flat", path.stem, path.read_text().replace("<svg ", f'<svg width="{ART}" height="{ART}" ', 1)))
    return pictures, {key: known[key] for key in seen}


def render(svg):
    """128x128 RGBA (straight alpha) with the drawing centred, as lossless WebP bytes; None if blank."""
    import resvg_py
    from PIL import Image

    art = Image.open(io.BytesIO(bytes(resvg_py.svg_to_bytes(svg_string=svg)))).convert("RGBA")
    if art.size != (ART, ART):
        raise ValueError(f"resvg drew {art.size}, expected {ART} pixels a side")
    canvas = Image.new("RGBA", (SIZE, SIZE), (0, 0, 0, 0))
    canvas.paste(art, ((SIZE - ART) // 2,) * 2)
    if np.asarray(canvas)[..., 3].mean() < 4:
        return None
    out = io.BytesIO()
    canvas.save(out, "WEBP", lossless=True, quality=60, method=4, exact=False)
    return out.getvalue()


def build(folder, out, workers):
    """Fetch, select and render; writes `out` (an .npz of WebP bytes and names) and returns the counts."""
    fetch(folder)
    pictures, known = select(folder)
    with Pool(workers) as pool:
        drawn = pool.map(render, [svg for _, _, svg in pictures], chunksize=32)
    kept = [(style, key, webp) for (style, key, _), webp in zip(pictures, drawn) if webp]
    blobs = [webp for _, _, webp in kept]
    np.savez(
        out,
        blob=np.frombuffer(b"".join(blobs), np.uint8),
        ends=np.cumsum([len(b) for b in blobs]),
        style=np.array([STYLES.index(style) for style, _, _ in kept], np.uint8),
        key=np.array([key for _, key, _ in kept]),
        concepts=np.array(json.dumps({k: vars(c) for k, c in known.items()})),
    )
    return {
        "pictures": dict(collections.Counter(style for style, _, _ in kept)),
        "blank": len(pictures) - len(kept),
        "concepts": len(known),
        "megabytes": round(sum(map(len, blobs)) / 1e6, 2),
    }


def load(path):
    """The pictures back: uint8 RGBA [n, 128, 128, 4], style index [n], concept key [n], concepts by key."""
    from concurrent.futures import ThreadPoolExecutor
    from PIL import Image

    file = np.load(path)
    blob, ends = file["blob"].tobytes(), file["ends"]
    starts = np.concatenate([[0], ends[:-1]])
    decode = lambda span: np.asarray(Image.open(io.BytesIO(blob[span[0] : span[1]])).convert("RGBA"))
    with ThreadPoolExecutor(16) as pool:
        pixels = np.stack(list(pool.map(decode, zip(starts, ends))))
    known = {k: Concept(**c) for k, c in json.loads(str(file["concepts"])).items()}
    return pixels, file["style"], file["key"], known


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, required=True, help="folder for the downloaded packages")
    parser.add_argument("--out", type=Path, required=True, help="the .npz to write")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    print(build(arguments.cache, arguments.out, arguments.workers))
