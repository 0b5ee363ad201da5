"""Writes the goldens of language models: what llama.cpp makes of texts with the real Gemma 3 270M.

Owns the texts. The file is named by TINTYPE_TEST_GEMMA3. Run by `cargo xtask golden`.
"""

import json
import os
import random
import sys
from pathlib import Path

import numpy as np
from cyllama.llama import llama_cpp

TEXTS = [
    "", " ", "  ", " " * 33, "\n", "\n\n\n", "\t\t x", "a", " a", "a ", "  a  b   c    d", "\u2581", "x \u2581\u2581 y",
    "The capital of France is", "Hello, world! It's 3.14159 o'clock; isn't it?", "0123456789 12,345.678e-90 0xDEADBEEF",
    "\U0001f355 pizza \U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 family \U0001f1eb\U0001f1f7 \u2764\ufe0f \U0001f44d\U0001f3fd",
    "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8\u3002\u4e2d\u6587\uff0c\ud55c\uad6d\uc5b4 \uc548\ub155\ud558\uc138\uc694",
    "\U00020000\U0002a6df\u3007 rare ideographs \ufa0e",
    "e\u0301 vs \u00e9, a\u0308\u0323\u0304, Z\u0351\u036b\u0343\u036a\u0302\u036b\u033d\u034f\u0334\u0319\u0324\u031e\u0349\u035a\u032f\u031e\u0320\u034dA\u0338\u0321L",
    "\u0633\u0644\u0627\u0645 \u0639\u0644\u06cc\u06a9\u0645, \u05e9\u05dc\u05d5\u05dd, \u0928\u092e\u0938\u094d\u0924\u0947, \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
    "nbsp\u00a0here, ideographic\u3000space, zero\u200bwidth, bom\ufeff, en\u2002em\u2003thin\u2009",
    "control \x00 \x01 \x1b[31m \x7f \u0085 \u2028 \u2029", "\r\nwindows\r\nlines\r", "private \ue000\uf8ff \U0010ffff \ufffd\ufffe",
    "fn main() {\n    println!(\"{:>8}\", 1 << 3);\n\t// tabs\n}\n",
    "def f(x):\n    return [y ** 2 for y in x if y % 2 == 0]  # squares\n\n\nclass A:\n        pass\n",
    "<html><body class=\"a\">&amp; <br/></body></html>", "{\"key\": [1, 2, {\"k\": null}], \"s\": \"\\u00e9\\n\"}",
    "SELECT * FROM t WHERE a<>b AND c LIKE '%x%';", "#include <stdio.h>\nint main(void){return 0;}",
    "<bos>hi<eos>", "<start_of_turn>user\nhi<end_of_turn>\n<start_of_turn>model\n", "<unk><pad><mask>[multimodal]",
    "<unused0> <unused99><0x0A><0xFF><0xff> <start_of_image>", "< bos > <bos <end_of_turn <<bos>>", "<table><tr><td>x</td></tr></table>",
    "   <bos>   x", "\n<end_of_turn>\n\n", "a" * 300, "ab" * 200 + " " * 70 + "\n" * 40, "antidisestablishmentarianism Donaudampfschifffahrt",
    "\u00c6\u00d8\u00c5 \u00df \u0130\u0131 \ufb01 \u1e9e \u01c5 \u2167 \u00bd \u00b2", "\u2200x\u2208\u211d: \u221a(x\u00b2)=|x| \u222b\u2080^\u221e e^{-x} dx \u2260 \U0001d4d0\U0001d552",
]

PROMPTS = [
    "The capital of France is", "Once upon a time", "def fibonacci(n):", "The three laws of thermodynamics are", "1, 1, 2, 3, 5, 8,",
    "Q: What is the boiling point of water?\nA:", "Il \u00e9tait une fois", "Die Hauptstadt von Deutschland ist", "\u65e5\u672c\u306e\u9996\u90fd\u306f",
    "Dear Sir or Madam,", "import numpy as np\n", "The recipe needs flour, sugar,", "In 1969, the first", "<html>\n<head>\n", "To be, or not to be,",
    "The largest planet in the solar system is", "Roses are red,", "SELECT name FROM users WHERE", "A long time ago in a galaxy", "\U0001f355 is my favourite",
]
TOKENS = 64
# Of the logits after a prompt, each one of so many is kept.
EACH = 1024


def random_texts(vocabulary, count, rng):
    """Texts of pieces, letters and stray code points in any order: merges that have rivals."""
    ranges = [(0x20, 0x7f), (0xa0, 0x180), (0x300, 0x370), (0x400, 0x460), (0x4e00, 0x9fff), (0x1f300, 0x1f700), (0, 0x30), (0xac00, 0xd7a3)]
    for _ in range(count):
        parts = []
        for _ in range(rng.randint(1, 16)):
            if rng.random() < 0.5:
                parts.append(vocabulary.get_text(rng.randrange(6, 255000)).replace("\u2581", " "))
            else:
                first, last = rng.choice(ranges)
                parts.append("".join(chr(rng.randrange(first, last)) for _ in range(rng.randint(1, 5))))
            parts.append(rng.choice(["", "", " ", "  ", "\n"]))
        yield "".join(parts)


class Model(llama_cpp.LlamaModel):
    """With the one attribute that the binding's own context asks for and its model lacks."""

    @property
    def n_vocab(self):
        return self.get_vocab().n_vocab


def load():
    llama_cpp.disable_logging()
    params = llama_cpp.LlamaModelParams()
    params.n_gpu_layers = 0
    return Model(os.environ["TINTYPE_TEST_GEMMA3"], params, verbose=False)


def decoded(vocabulary, ids, special):
    """The text of tokens. The binding strips spaces before the first, so one of another text goes first."""
    anchor = vocabulary.tokenize("x", False, False)
    return vocabulary.detokenize(anchor + ids, 1 << 14, False, special)[1:]


def tokenizer(vocabulary):
    texts = TEXTS + list(random_texts(vocabulary, 250, random.Random(7)))
    rows = []
    for text in texts:
        plain = vocabulary.tokenize(text, False, False)
        special = vocabulary.tokenize(text, True, True)
        row = {"text": text, "ids": plain, "decoded": decoded(vocabulary, plain, False)}
        if special != [vocabulary.token_bos(), *plain]:
            row["special"] = special
            row["decoded_special"] = decoded(vocabulary, special, True)
        rows.append(row)
    return rows


def greedy(model, vocabulary):
    """Each prompt's likeliest continuation, how far the second choice is behind, and some first logits."""
    params = llama_cpp.LlamaContextParams()
    params.n_ctx, params.n_batch, params.n_ubatch = 512, 512, 512
    params.n_threads = params.n_threads_batch = 2
    context = llama_cpp.LlamaContext(model, params)
    rows = []
    for prompt in PROMPTS:
        context.kv_cache_clear()
        ids, gaps, first = vocabulary.tokenize(prompt, True, False), [], None
        row = {"prompt": prompt, "ids": ids, "tokens": []}
        at, fed = 0, ids
        while len(row["tokens"]) < TOKENS:
            batch = llama_cpp.LlamaBatch(n_tokens=len(fed), embd=0, n_seq_max=1)
            for n, id in enumerate(fed):
                batch.add(id, at + n, [0], n == len(fed) - 1)
            context.decode(batch)
            at += len(fed)
            logits = np.array(context.get_logits(), dtype=np.float32)
            if first is None:
                first = logits[::EACH]
            best = int(logits.argmax())
            second = np.partition(logits, -2)[-2]
            gaps.append(round(float(logits[best] - second), 4))
            row["tokens"].append(best)
            if vocabulary.is_eog(best):
                break
            fed = [best]
        row["gaps"] = gaps
        row["logits"] = [round(float(x), 5) for x in first]
        rows.append(row)
    return rows


def write(path, value):
    rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in value)
    path.write_text(f"[\n{rows}\n]\n")


def main(folder):
    model = load()
    vocabulary = model.get_vocab()
    write(folder / "gemma3_tokenizer.json", tokenizer(vocabulary))
    write(folder / "gemma3_greedy.json", greedy(model, vocabulary))
    ends = [id for id in range(vocabulary.n_vocab) if vocabulary.is_eog(id)]
    write(folder / "gemma3_ends.json", ends)


main(Path(sys.argv[1]))
