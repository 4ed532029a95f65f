"""The model against stored answers of NVIDIA's header, on every machine."""

from __future__ import annotations

import csv
from functools import cache

import pytest

from kerneldsl.planner import COMPUTE_CAPABILITIES, DeviceOccupancyLimits
from tests.occupancy.answers import FACTORS, differences, model_answer
from tests.occupancy.configurations import kernel_of_row
from tests.occupancy.make_golden import GOLDEN

TABLED = [each for each in COMPUTE_CAPABILITIES if each != (10, 7)]


@cache
def _rows() -> list[dict[str, int]]:
    with GOLDEN.open(newline="") as file:
        lines = [line for line in file if not line.startswith("#")]
    return [{name: int(value) for name, value in row.items()} for row in csv.DictReader(lines)]


@pytest.mark.parametrize("capability", TABLED, ids=lambda c: f"{c[0]}.{c[1]}")
def test_stored_answers(capability: tuple[int, int]) -> None:
    device = DeviceOccupancyLimits.for_compute_capability(capability, multiprocessor_count=132)
    factors = 0
    rows = [row for row in _rows() if (row["major"], row["minor"]) == capability]
    assert len(rows) >= 30
    for row in rows:
        theirs = {name[1:]: value for name, value in row.items() if name.startswith("=")}
        found = differences(model_answer(device, kernel_of_row(row), row), theirs)
        assert not found, f"(ours, theirs): {found}\nconfiguration: {row}"
        factors |= theirs["limiting_factors"]
    expected = {"warps", "registers", "shared_memory", "blocks"}
    expected |= {"barriers"} if capability >= (9, 0) else set()
    expected |= {"virtual_resources"} if capability >= (10, 0) else set()
    assert factors == sum(FACTORS[name] for name in expected)
