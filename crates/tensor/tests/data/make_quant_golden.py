"""Writes quant_golden.bin: random blocks of each decoded type and their values by Python `gguf`.

    python -m venv /tmp/golden && /tmp/golden/bin/pip install gguf==0.19.0 numpy==2.4.6
    /tmp/golden/bin/python make_quant_golden.py quant_golden.bin

Layout, little-endian, one record a type: name length u32, name, blocks u32, block bytes u32, values
a block u32, the blocks, the values as f32.
"""

import struct
import sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

BLOCKS = 8
# Where each f16 scale of a block lies: random bytes there would be NaN or huge.
SCALES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "IQ4_NL": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
}

random = np.random.default_rng(20261201)
with open(sys.argv[1], "wb") as out:
    for name, scales in SCALES.items():
        kind = GGMLQuantizationType[name]
        elements, size = GGML_QUANT_SIZES[kind]
        blocks = random.integers(0, 256, (BLOCKS, size), dtype=np.uint8)
        for at in scales:
            values = random.uniform(-0.02, 0.02, BLOCKS).astype(np.float16)
            values[0] = np.float16(3e-6)  # a subnormal scale
            blocks[:, at : at + 2] = values.view(np.uint8).reshape(BLOCKS, 2)
        decoded = dequantize(blocks, kind).astype(np.float32)
        assert decoded.size == BLOCKS * elements
        out.write(struct.pack("<I", len(name)) + name.encode())
        out.write(struct.pack("<III", BLOCKS, size, elements))
        out.write(blocks.tobytes() + decoded.tobytes())
