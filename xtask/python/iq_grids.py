"""Writes crates/engine/src/quant/grids.bin: the lattices of the IQ block types, packed.

They are constants of the GGUF format; this takes them from Python `gguf` (see requirements.txt).
Layout: IQ2_XXS, IQ2_XS, IQ2_S, IQ1_S (2 bits a value, low bits first), IQ3_XXS, IQ3_S (4 bits a
value, low bits first); each value is an index into the type's short table of magnitudes.
"""

import sys

import gguf.quants as q


def main(path: str) -> None:
    out = b""
    for kind in (q.IQ2_XXS, q.IQ2_XS, q.IQ2_S, q.IQ1_S, q.IQ3_XXS, q.IQ3_S):
        packed = bytes.fromhex(kind.grid_hex.decode())
        rows, width = kind.grid_shape
        bits = 2 if len(kind.grid_map) <= 4 else 4
        assert len(packed) * 8 == rows * width * bits, kind
        out += packed
    with open(path, "wb") as file:
        file.write(out)


main(sys.argv[1])
