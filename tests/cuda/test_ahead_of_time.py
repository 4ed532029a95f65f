"""A file written by ``kerneldsl compile`` is launched with cuda.core alone.

The launch uses nothing of kerneldsl: the entry's name and the parameters are read from what was
written beside the PTX.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

import kerneldsl as kd
from tests.support.arrays import assert_same_bits

_ROOT = Path(__file__).parents[2]
_SOURCE = """
import kerneldsl as kd


@kd.kernel(contract=False)
def scale_rows(flag, a, x, offset, out):
    row, column = kd.blockIdx.x, kd.threadIdx.x
    if column < x.shape[1]:
        value = a * x[row, column] + offset[column]
        out[row, column] = value if flag else -value
"""


def _compile(tmp_path: Path) -> tuple[Path, list[tuple[int, str, str]], str]:
    """Compile through the command line; return the PTX, the parameters and the entry's name."""
    source, ptx = tmp_path / "kernels.py", tmp_path / "scale_rows.ptx"
    source.write_text(_SOURCE)
    command = [
        *(sys.executable, "-m", "kerneldsl", "compile", f"{source}:scale_rows"),
        *("--signature", "bool, float32, float32[:, ::1], float32[:], float32[:, :]"),
        *("--arch", kd.devices("cuda")[0].arch, "-o", str(ptx)),
    ]
    environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    beside = {p.name for p in tmp_path.iterdir() if p not in (source, ptx) and p.is_file()}
    assert beside == {f"{ptx.name}.params.txt", f"{ptx.name}.params.json"}
    return ptx, *_read_layout(ptx.with_name(f"{ptx.name}.params.txt").read_text())


def _read_layout(text: str) -> tuple[list[tuple[int, str, str]], str]:
    """Read the table of `ParameterLayout.describe`, and the entry's name above it."""
    rows, entry = [], ""
    for line in text.splitlines():
        words = line.split()
        if len(words) == 4 and words[0].isdigit() and words[1].isdigit():
            rows.append((int(words[1]), words[2], words[3]))
        elif len(words) == 2 and words[0].rstrip(":").lower() == "entry":
            entry = words[1]
    assert rows, text
    assert entry, text
    return rows, entry


_TYPES: dict[str, Any] = {
    "uint8": np.uint8,
    "bool": np.uint8,
    "float32": np.float32,
    "int64": np.int64,
}


def test_a_compiled_file_needs_no_kerneldsl(
    tmp_path: Path, rng: np.random.Generator, cupy: Any, cuda_core: Any
) -> None:
    ptx, rows, entry = _compile(tmp_path)

    x = rng.standard_normal((6, 100)).astype(np.float32)
    offsets = rng.standard_normal(200).astype(np.float32)
    device_x, device_offsets = cupy.asarray(x), cupy.asarray(offsets)
    out = cupy.full((6, 128), np.nan, np.float32)
    offset_view, out_view = device_offsets[::2], out[:, 5:105]
    values = {
        "flag": True,
        "a": 1.5,
        **_parameters("x", device_x, strided=False),
        **_parameters("offset", offset_view, strided=True),
        **_parameters("out", out_view, strided=True),
    }
    assert [name for _, _, name in rows] == list(values)
    arguments = [
        values[name] if dtype == "pointer" else _TYPES[dtype](values[name])
        for _, dtype, name in rows
    ]

    device = cuda_core.Device(0)
    device.set_current()
    stream = device.create_stream()
    cupy.cuda.get_current_stream().synchronize()
    kernel = cuda_core.ObjectCode.from_ptx(ptx.read_bytes()).get_kernel(entry)
    cuda_core.launch(stream, cuda_core.LaunchConfig(grid=6, block=128), kernel, *arguments)
    stream.sync()

    expected = np.full((6, 128), np.nan, np.float32)
    expected[:, 5:105] = np.float32(1.5) * x + offsets[::2]
    assert_same_bits(cupy.asnumpy(out), expected, "launched with cuda.core")


def _parameters(name: str, array: Any, *, strided: bool) -> dict[str, Any]:
    values: dict[str, Any] = {f"{name}.data": int(array.data.ptr)}
    values |= {f"{name}.shape[{axis}]": n for axis, n in enumerate(array.shape)}
    if strided:
        values |= {f"{name}.strides[{axis}]": n for axis, n in enumerate(array.strides)}
    return values


def test_a_fat_binary_is_a_module(tmp_path: Path, rng: np.random.Generator) -> None:
    source, path = tmp_path / "kernels.py", tmp_path / "scale_rows.fatbin"
    source.write_text(_SOURCE)
    own = kd.devices("cuda")[0].arch
    architectures = ["sm_80", "sm_120"] + [own] * (own not in ("sm_80", "sm_120"))
    for chosen in (architectures, ["sm_75"]):  # machine code for the device, or PTX
        command = [
            *(sys.executable, "-m", "kerneldsl", "compile", f"{source}:scale_rows"),
            *("--signature", "bool, float32, float32[:, ::1], float32[::1], float32[:, ::1]"),
            *("--arch", ",".join(chosen), "-o", str(path)),
        ]
        environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=300, env=environment, check=False
        )
        assert done.returncode == 0, done.stderr + done.stdout
        rows, entry = _read_layout(path.with_name(f"{path.name}.params.txt").read_text())
        types = {"uint8": "bool", "bool": "bool", "float32": "float32", "int64": "int64"}
        pointers = {"x.data": "float32[:, ::1]", "offset.data": "float32[::1]"}
        signature = ", ".join(
            pointers.get(name, "float32[:, ::1]") if dtype == "pointer" else types[dtype]
            for _, dtype, name in rows
        )
        x = rng.standard_normal((6, 101)).astype(np.float32)
        offsets = rng.standard_normal(101).astype(np.float32)
        out = np.full((6, 101), np.nan, np.float32)
        values = {"flag": True, "a": np.float32(1.5)}
        for name, array in (("x", x), ("offset", offsets), ("out", out)):
            values[f"{name}.data"] = kd.to_device(array)
            values |= {f"{name}.shape[{axis}]": n for axis, n in enumerate(array.shape)}
        kernel = kd.module(path.read_bytes()).kernel(entry, signature)
        kernel[6, 128](*(values[name] for _, _, name in rows))
        expected = np.float32(1.5) * x + offsets
        assert_same_bits(values["out.data"].copy_to_host(), expected, f"for {chosen}")
