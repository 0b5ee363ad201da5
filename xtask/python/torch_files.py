"""Files that torch.save writes, old and new, and what torch reads from what the Rust side wrote.

  torch_files.py make DIR   write the files, and what they hold as safetensors
  torch_files.py check DIR  read what the Rust side made of them and compare

`make` also wrote crates/engine/tests/data/torch (needs requirements-torch.txt).
"""

import pathlib
import sys

import torch
from safetensors.torch import load_file, save_file

KINDS = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16,
         "f8_e4m3": torch.float8_e4m3fn, "f8_e5m2": torch.float8_e5m2, "i8": torch.int8,
         "u8": torch.uint8, "i16": torch.int16, "u16": torch.uint16, "i32": torch.int32,
         "u32": torch.uint32, "i64": torch.int64, "u64": torch.uint64, "bool": torch.bool}


class Evil:
    def __reduce__(self):
        import os

        return os.system, ("touch EXECUTED",)


def tensors() -> dict:
    torch.manual_seed(3)
    base = torch.randn(6, 8)
    all_of_them = {name: (base.abs() * 20).to(kind) for name, kind in KINDS.items()}
    all_of_them["scalar"] = torch.tensor(2.5)
    all_of_them["empty"] = torch.zeros(0, 4)
    # Every 8-bit float there is.
    octets = torch.arange(256, dtype=torch.uint8)
    all_of_them["all.e4m3"] = octets.clone().view(torch.float8_e4m3fn)
    all_of_them["all.e5m2"] = octets.clone().view(torch.float8_e5m2)
    # Views: of part of a storage, of one shared by two, and of another order.
    all_of_them["transposed"] = torch.randn(3, 5).t()
    all_of_them["window"] = torch.randn(8, 8)[2:6, 1:4]
    all_of_them["tied.a"] = all_of_them["tied.b"] = torch.randn(4, 4)
    all_of_them["parameter"] = torch.nn.Parameter(torch.randn(3))
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    return {**all_of_them, **model.state_dict()}


def make(where: pathlib.Path) -> None:
    state = tensors()
    plain = {name: tensor.detach().clone().contiguous() for name, tensor in state.items()}
    save_file(plain, where / "expected.safetensors", metadata={"note": "ä \" \\"})
    single = {name: tensor.to(torch.float32) for name, tensor in plain.items()}
    save_file(single, where / "expected_f32.safetensors")
    for file, zipped in (("new.pt", True), ("old.ckpt", False)):
        nested = {"epoch": 3, "state_dict": state, "lr": 1e-3, "args": ("x", None)}
        torch.save(nested, where / file, _use_new_zipfile_serialization=zipped)
        torch.save(state["f32"], where / f"one_{file}", _use_new_zipfile_serialization=zipped)
        evil = {"w": state["f32"], "x": Evil()}
        torch.save(evil, where / f"evil_{file}", _use_new_zipfile_serialization=zipped)
    for protocol in (3, 4, 5):
        torch.save({"f32": state["f32"]}, where / f"protocol{protocol}.pt", pickle_protocol=protocol)


def octets(tensor) -> bytes:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def check(where: pathlib.Path) -> None:
    want = torch.load(where / "new.pt", weights_only=True)["state_dict"]
    for file in ("rust_new.safetensors", "rust_old.safetensors", "rust_expected.safetensors"):
        got = load_file(where / file)
        assert set(got) == set(want), (file, set(got) ^ set(want))
        for name, tensor in want.items():
            assert got[name].dtype == tensor.dtype and got[name].shape == tensor.shape, name
            assert octets(got[name]) == octets(tensor), name
        print(f"{file}: {len(want)} tensors equal")


if __name__ == "__main__":
    task, folder = sys.argv[1:]
    {"make": make, "check": check}[task](pathlib.Path(folder))
