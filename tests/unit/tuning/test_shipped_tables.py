"""The tables of tuned plans that the library ships."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import stdlib_kernels
from kerneldsl.launch.measured import FOLDER, read_table, shipped_choice

TABLES = Path(stdlib_kernels.__path__[0], FOLDER)


def test_every_shipped_plan_can_be_read_and_is_of_a_module_of_the_library():
    for path in sorted(TABLES.glob("*.json")):
        documents = json.loads(path.read_text())
        table = read_table(path)
        assert len(table) == len(documents), path
        for launch in table:
            parts = launch.kernel.split(".")
            assert parts[0] == "stdlib_kernels"
            modules = [".".join(parts[:end]) for end in range(1, len(parts))]
            assert any(importlib.util.find_spec(each) for each in modules[1:2]), launch.kernel


def test_a_table_is_read_from_the_folder_of_the_library(tmp_path: Path):
    plan = {
        "block_dim": [256, 1, 1],
        "mapping": {
            "items": [4, 1, 1],
            "vector": 4,
            "order": "strided",
            "axes": None,
            "grid_stride": "",
        },
        "parameters": [],
        "host": None,
    }
    launch = {
        "kernel": "stdlib_kernels.copying.copy_1d",
        "captures": "0123",
        "signature": "float32[::1], float32[::1]",
        "extents": [1024],
        "device": "NVIDIA H200",
        "driver": "CUDA 13.0",
    }
    path = tmp_path / "a.json"
    good = {"metadata": {"launch": launch, "chosen": plan}, "results": []}
    path.write_text(json.dumps([good]))
    ((found, choices),) = read_table(path).items()
    assert found.driver == "CUDA 13"
    assert choices.mapping.vector == 4
    assert choices.block_dim == (256, 1, 1)
    for broken in ("", "[1]", "{}", json.dumps([{"metadata": {"launch": {}, "chosen": plan}}])):
        path.write_text(broken)
        assert not read_table(path)


def test_a_device_of_another_name_takes_no_shipped_plan():
    """The planner chooses there, however like the device is, until something is tuned on it."""
    request: Any = SimpleNamespace(
        state=SimpleNamespace(unit=SimpleNamespace(module="stdlib_kernels.copying")),
        device=SimpleNamespace(name="NVIDIA H100 80GB HBM3"),
    )
    assert shipped_choice(request) is None
