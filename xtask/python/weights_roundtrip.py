"""Round trips of weight files with the field's own Python packages, as judge.

  weights_roundtrip.py make DIR    write files of every format, and what each tensor holds
  weights_roundtrip.py check DIR   read what the Rust side wrote and compare
  weights_roundtrip.py dump FILE DIR   a GGUF file's tensors, dequantized, for comparison

Run by crates/engine/tests/python.rs; `cargo xtask python` makes the environment.
A tensor NAME of FILE is dumped to FILE.d/NAME as little-endian single precision.
"""

import json
import pathlib
import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import quants

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
    for version_note, file in (("every type", where / "types.gguf"),):
        writer = gguf.GGUFWriter(file, "llama")
        writer.add_name(version_note)
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


def make_torch(where: pathlib.Path) -> None:
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(3)
    base = torch.randn(6, 8)
    kinds = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16,
             "bf16": torch.bfloat16, "f8_e4m3": torch.float8_e4m3fn, "f8_e5m2": torch.float8_e5m2,
             "i8": torch.int8, "u8": torch.uint8, "i16": torch.int16, "u16": torch.uint16,
             "i32": torch.int32, "u32": torch.uint32, "i64": torch.int64, "u64": torch.uint64,
             "bool": torch.bool}
    plain = {name: (base.abs() * 20).to(kind) for name, kind in kinds.items()}
    plain["scalar"] = torch.tensor(2.5)
    plain["empty"] = torch.zeros(0, 4)
    # Every 8-bit float there is.
    octets = torch.arange(256, dtype=torch.uint8)
    plain["all.e4m3"] = octets.clone().view(torch.float8_e4m3fn)
    plain["all.e5m2"] = octets.clone().view(torch.float8_e5m2)
    save_file(plain, where / "plain.safetensors", metadata={"format": "pt", "note": "ä \" \\"})

    shared = torch.randn(4, 4)
    odd = dict(plain)
    odd["transposed"] = torch.randn(3, 5).t()
    odd["window"] = torch.randn(8, 8)[2:6, 1:4]
    odd["tied.a"] = shared
    odd["tied.b"] = shared
    odd["parameter"] = torch.nn.Parameter(torch.randn(3))
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    state = model.state_dict()
    for file, zipped in (("new.pt", True), ("old.ckpt", False)):
        nested = {"epoch": 3, "state_dict": {**odd, **state}, "lr": 1e-3, "args": ("x", None)}
        torch.save(nested, where / file, _use_new_zipfile_serialization=zipped)
        torch.save(plain["f32"], where / ("one_" + file), _use_new_zipfile_serialization=zipped)
        for name, tensor in nested["state_dict"].items():
            dump(where / (file + ".d"), name, tensor.detach().to(torch.float32).numpy())
    for name, tensor in plain.items():
        dump(where / "plain.safetensors.d", name, tensor.to(torch.float32).numpy())
    for protocol in (3, 4, 5):
        torch.save({"w": base}, where / f"protocol{protocol}.pt", pickle_protocol=protocol)

    class Evil:
        def __reduce__(self):
            import os

            return os.system, ("touch " + str(where / "EXECUTED"),)

    torch.save({"w": base, "x": Evil()}, where / "evil.pt")
    torch.save({"w": base, "x": Evil()}, where / "evil.ckpt", _use_new_zipfile_serialization=False)


def make_sources(where: pathlib.Path) -> None:
    from safetensors.numpy import save_file

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
    import torch
    from safetensors.numpy import load_file
    from safetensors.torch import load_file as load_torch

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
    # torch → Rust → safetensors → torch.
    want = torch.load(where / "new.pt", weights_only=True)["state_dict"]
    for file in ("rust_new.safetensors", "rust_old.safetensors", "rust_plain.safetensors"):
        got = load_torch(where / file)
        expected = load_torch(where / "plain.safetensors") if "plain" in file else want
        assert set(got) == set(expected), set(got) ^ set(expected)
        for name, tensor in expected.items():
            assert got[name].dtype == tensor.dtype and got[name].shape == tensor.shape, name
            flat = lambda t: t.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
            assert flat(got[name]) == flat(tensor), name
    print(json.dumps(report))


def dump_gguf(file: pathlib.Path, folder: pathlib.Path) -> None:
    for tensor in gguf.GGUFReader(file).tensors:
        dump(folder, tensor.name, quants.dequantize(np.array(tensor.data), tensor.tensor_type))


if __name__ == "__main__":
    task, *paths = sys.argv[1:]
    paths = [pathlib.Path(path) for path in paths]
    if task == "make":
        make_gguf(*paths)
        make_torch(*paths)
        make_sources(*paths)
    elif task == "check":
        check(*paths)
    elif task == "dump":
        dump_gguf(*paths)
    else:
        sys.exit(__doc__)
