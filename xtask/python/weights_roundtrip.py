"""Round trips of weight files with the field's own Python packages, as judge.

  weights_roundtrip.py make DIR    write files of every format, and what each tensor holds
  weights_roundtrip.py check DIR   read what the Rust side wrote and compare
  weights_roundtrip.py digest FILE a GGUF file's tensors, dequantized: the sha256 of each

Run by crates/engine/tests/python.rs; `cargo xtask python` makes the environment. What
torch.save writes is in torch_files.py.
A tensor NAME of FILE is dumped to FILE.d/NAME as little-endian single precision.
"""

import hashlib
import json
import pathlib
import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import quants
from safetensors import TensorSpec, deserialize, safe_open, serialize_file
from safetensors.numpy import load_file, save_file

CODED = [T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.Q2_K, T.Q3_K, T.Q4_K, T.Q5_K, T.Q6_K, T.IQ2_XXS,
         T.IQ2_XS, T.IQ2_S, T.IQ3_XXS, T.IQ3_S, T.IQ1_S, T.IQ1_M, T.IQ4_NL, T.IQ4_XS, T.TQ1_0,
         T.TQ2_0, T.MXFP4, T.NVFP4]
EXACT = [T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.F16, T.BF16]
PLAIN = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "f64": np.float64,
         "f32": np.float32, "f16": np.float16}


def dump(folder: pathlib.Path, name: str, values) -> None:
    folder.mkdir(exist_ok=True)
    np.ascontiguousarray(values, dtype="<f4").tofile(folder / name)


def weights(shape, seed: int):
    """Values as trained weights are spread: mostly normal, with outliers."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape) * 0.05
    values *= np.where(rng.random(shape) < 0.001, 20, 1)
    return values.astype(np.float32)


def make_gguf(where: pathlib.Path) -> None:
    rng = np.random.default_rng(7)
    file = where / "types.gguf"
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_name("every type")
    writer.add_uint8("t.u8", 200)
    writer.add_int8("t.i8", -5)
    writer.add_uint16("t.u16", 60000)
    writer.add_int16("t.i16", -30000)
    writer.add_uint32("t.u32", 4_000_000_000)
    writer.add_int32("t.i32", -2_000_000_000)
    writer.add_uint64("t.u64", 2**63)
    writer.add_int64("t.i64", -(2**62))
    writer.add_float32("t.f32", 0.25)
    writer.add_float64("t.f64", 1e300)
    writer.add_bool("t.bool", True)
    writer.add_array("t.strings", ["a", "ü", ""])
    writer.add_array("t.numbers", [1, -2, 3])
    folder = where / (file.name + ".d")
    for kind in CODED:
        block, size = gguf.GGML_QUANT_SIZES[kind]
        # Random bytes reach every bit pattern, infinite and undefined scales too.
        data = rng.integers(0, 256, (3, 2048 // block * size), dtype=np.uint8)
        writer.add_tensor(kind.name, data, raw_dtype=kind)
        with np.errstate(all="ignore"):
            dump(folder, kind.name, quants.dequantize(data, kind))
    half = rng.integers(0, 2**16, (4, 64), dtype=np.uint16)
    writer.add_tensor("bf16", half.view(np.uint8), raw_dtype=T.BF16)
    dump(folder, "bf16", quants.dequantize(half.view(np.uint8), T.BF16))
    for name, kind in PLAIN.items():
        data = (rng.standard_normal((2, 3, 5)) * 100).astype(kind)
        writer.add_tensor(name, data)
        dump(folder, name, data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def float8(octets, exponent_bits: int):
    """8-bit floats by their definition, since numpy has none."""
    mantissa_bits = 7 - exponent_bits
    bias = 2 ** (exponent_bits - 1) - 1
    out = []
    for octet in octets.ravel().tolist():
        exponent = octet >> mantissa_bits & (2**exponent_bits - 1)
        mantissa = (octet & (2**mantissa_bits - 1)) / 2**mantissa_bits
        value = mantissa * 2.0 ** (1 - bias) if exponent == 0 else (1 + mantissa) * 2.0 ** (exponent - bias)
        if exponent_bits == 4 and octet & 0x7F == 0x7F:
            value = np.nan
        if exponent_bits == 5 and exponent == 31:
            value = np.inf if mantissa == 0 else np.nan
        out.append(-value if octet & 0x80 else value)
    return np.array(out, dtype=np.float32)


def make_safetensors(where: pathlib.Path) -> None:
    """Every type of the format that is read, the ones that numpy lacks as bytes."""
    rng = np.random.default_rng(11)
    octets = np.arange(256, dtype=np.uint8)
    half = rng.integers(0, 2**16, (4, 64), dtype=np.uint16)
    tensors, folder = {}, where / "plain.safetensors.d"

    alive = []  # The serializer is given addresses, so the bytes must outlive it.

    def add(name, kind, data, values):
        data = np.ascontiguousarray(data).reshape(data.shape)
        alive.append(data)
        address = data.ctypes.data
        tensors[name] = TensorSpec(
            dtype=kind, shape=list(data.shape), data_ptr=address, data_len=data.nbytes)
        dump(folder, name, values)

    for kind in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16",
                 "float32", "float64"):
        data = (rng.random((2, 3, 5)) * 100).astype(kind)
        add(kind, kind, data, data)
    flags = rng.integers(0, 2, (3, 7), dtype=np.uint8)
    add("bool", "bool", flags, flags)
    add("bfloat16", "bfloat16", half, (half.astype(np.uint32) << 16).view(np.float32))
    add("float8_e4m3", "float8_e4m3fn", octets, float8(octets, 4))
    add("float8_e5m2", "float8_e5m2", octets, float8(octets, 5))
    add("scalar", "float32", np.float32(2.5).reshape(()), np.float32(2.5))
    add("empty", "float32", np.zeros((0, 4), np.float32), np.zeros(0))
    serialize_file(tensors, where / "plain.safetensors", {"format": "pt", "note": "ä \" \\"})


def make_types(where: pathlib.Path) -> None:
    """Every type that the format has: its name, number, values a block and bytes a block."""
    sizes = gguf.GGML_QUANT_SIZES
    types = [(kind.name, kind.value, *map(int, sizes[kind])) for kind in T]
    (where / "types.json").write_text(json.dumps(types))


def make_sources(where: pathlib.Path) -> None:
    tensors = {f"blk.{n}.w.weight": weights((64, 512), n) for n in range(3)}
    tensors["norm.weight"] = weights((512,), 9)
    save_file(tensors, where / "source.safetensors")


def same(a, b) -> bool:
    a, b = np.asarray(a, dtype=np.float32).ravel(), np.asarray(b, dtype=np.float32).ravel()
    return a.shape == b.shape and bool(np.all((a == b) | (np.isnan(a) & np.isnan(b))))


def error(new, old) -> float:
    new, old = np.asarray(new, np.float64).ravel(), np.asarray(old, np.float64).ravel()
    return float(np.linalg.norm(new - old) / np.linalg.norm(old))


def check(where: pathlib.Path) -> None:
    source = load_file(where / "source.safetensors")
    report = {}
    for kind in EXACT + [T.Q2_K, T.Q3_K, T.Q4_K, T.Q5_K, T.Q6_K, T.F32]:
        reader = gguf.GGUFReader(where / f"rust_{kind.name}.gguf")
        tensors = {t.name: t for t in reader.tensors}
        assert set(tensors) == set(source), kind
        for name, values in source.items():
            tensor = tensors[name]
            assert tuple(reversed(tensor.shape.tolist())) == values.shape, name
            if values.ndim == 1:
                assert tensor.tensor_type == T.F32 and same(tensor.data, values), name
                continue
            assert tensor.tensor_type == kind, name
            if kind == T.F32:
                assert same(tensor.data, values)
            elif kind in EXACT:
                want = quants.quantize(values, kind).tobytes()
                assert tensor.data.tobytes() == want, f"{kind.name} {name} is not byte-identical"
            back = quants.dequantize(np.array(tensor.data), kind)
            report[kind.name] = max(report.get(kind.name, 0), error(back, values))
    # Files that were copied: Python reads the same tensors and metadata from both.
    a, b = gguf.GGUFReader(where / "types.gguf"), gguf.GGUFReader(where / "rust_types.gguf")
    for left, right in zip(a.tensors, b.tensors, strict=True):
        assert left.name == right.name and left.tensor_type == right.tensor_type
        assert left.data.tobytes() == right.data.tobytes(), left.name
    for key, field in a.fields.items():
        if not key.startswith("GGUF."):
            assert b.fields[key].contents() == field.contents(), key
    # safetensors → Rust → safetensors, as its own package reads both.
    files = [where / "plain.safetensors", where / "rust_plain.safetensors"]
    old, new = [dict(deserialize(file.read_bytes())) for file in files]
    assert set(old) == set(new), set(old) ^ set(new)
    for name, tensor in old.items():
        for key in ("dtype", "shape", "data"):
            assert new[name][key] == tensor[key], (name, key)
    notes = [safe_open(file, "numpy").metadata() for file in files]
    assert notes[0] == notes[1], notes
    print(json.dumps(report))


def digest(file: pathlib.Path) -> None:
    sums = {}
    for tensor in gguf.GGUFReader(file).tensors:
        values = quants.dequantize(np.array(tensor.data), tensor.tensor_type)
        values = np.ascontiguousarray(values, dtype="<f4")
        sums[tensor.name] = hashlib.sha256(values).hexdigest()
    print(json.dumps(sums))


if __name__ == "__main__":
    task, *paths = sys.argv[1:]
    paths = [pathlib.Path(path) for path in paths]
    if task == "make":
        make_gguf(*paths)
        make_safetensors(*paths)
        make_types(*paths)
        make_sources(*paths)
    elif task == "check":
        check(*paths)
    elif task == "digest":
        digest(*paths)
    else:
        sys.exit(__doc__)
