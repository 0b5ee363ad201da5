"""Prints the constants of crates/engine/src/quant/tests.rs: what Python `gguf` makes of bytes and
values from one small generator, and the errors of llama.cpp's K quantizers on the same values.

  quant_goldens.py [LIBGGML]

LIBGGML is a shared library with llama.cpp's `quantize_row_q*_K_ref` (ggml-quants.c); without it
the errors are left out.
"""

import ctypes
import os
import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import quants

DECODED = [T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.Q2_K, T.Q3_K, T.Q4_K, T.Q5_K, T.Q6_K,
           T.IQ2_XXS, T.IQ2_XS, T.IQ2_S, T.IQ3_XXS, T.IQ3_S, T.IQ1_S, T.IQ1_M, T.IQ4_NL, T.IQ4_XS,
           T.TQ1_0, T.TQ2_0, T.MXFP4, T.NVFP4, T.BF16, T.F16]
ENCODED = [T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.BF16, T.F16]
K_TYPES = [T.Q2_K, T.Q3_K, T.Q4_K, T.Q5_K, T.Q6_K]


def generator(seed: int, count: int):
    """Numerical Recipes' linear congruential generator, upper 16 bits."""
    out, state = np.empty(count, dtype=np.uint16), seed
    for at in range(count):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        out[at] = state >> 16
    return out


def random_bytes(seed: int, count: int):
    return (generator(seed, count) >> 8).astype(np.uint8)


def uniform(seed: int, count: int):
    return (generator(seed, count).astype(np.float32) - np.float32(32768)) / np.float32(32768)


def random_values(count: int):
    """Cubed uniform values: many small, few large, as weights are."""
    values = uniform(5, count)
    return values * values * values


def bell(count: int):
    """Sums of four uniform values: nearly normal."""
    four = uniform(6, 4 * count).reshape(count, 4)
    return ((four[:, 0] + four[:, 1]) + four[:, 2]) + four[:, 3]


def outliers(count: int):
    """The same, with one value of 500 being 32 times larger."""
    values = bell(count) * np.float32(0.05)
    values[generator(7, count) < 131] *= np.float32(32)
    return values


def shifted(count: int):
    """Nearly normal values about one that is not zero."""
    return bell(count) * np.float32(0.05) + np.float32(0.125)


def fnv(data: bytes) -> int:
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def rust(kind: T) -> str:
    head, *rest = kind.name.replace("_K", "K").split("_")
    if head.startswith(("IQ", "TQ")) or head in ("BF16", "MXFP4", "NVFP4"):
        head = head.capitalize()
    digits = len(rest) == 1 and rest[0].isdigit()
    return head + ("_" + rest[0] if digits else "".join(r.capitalize() for r in rest))


def main() -> None:
    for kind in DECODED:
        block, size = gguf.GGML_QUANT_SIZES[kind]
        data = random_bytes(1, 2048 // block * size)
        with np.errstate(all="ignore"):
            values = np.ascontiguousarray(quants.dequantize(data.reshape(1, -1), kind))
        bits = values.view(np.uint32).copy()
        bits[np.isnan(values)] = 0x7FC00000
        print(f"    (DType::{rust(kind)}, {fnv(bits.tobytes()):#018x}),")
    values = random_values(4096).reshape(8, 512)
    for kind in ENCODED:
        data = np.ascontiguousarray(quants.quantize(values, kind)).view(np.uint8)
        print(f"    (DType::{rust(kind)}, {fnv(data.tobytes()):#018x}),")
    if len(sys.argv) < 2:
        return
    library = ctypes.CDLL(sys.argv[1], mode=os.RTLD_LAZY)
    pointer = lambda array: array.ctypes.data_as(ctypes.c_void_p)
    for spread in (random_values, bell, outliers, shifted):
        values = np.ascontiguousarray(spread(65536))
        errors = []
        for kind in K_TYPES:
            block, size = gguf.GGML_QUANT_SIZES[kind]
            out = np.zeros(values.size // block * size, dtype=np.uint8)
            name = f"quantize_row_{kind.name[0].lower()}{kind.name[1:]}_ref"
            getattr(library, name)(pointer(values), pointer(out), ctypes.c_int64(values.size))
            back = quants.dequantize(out, kind).astype(np.float64)
            error = np.linalg.norm(back - values) / np.linalg.norm(values.astype(np.float64))
            errors.append(f"{error:.9}")
        print(f"    ({spread.__name__}, [{', '.join(errors)}]),")


main()
