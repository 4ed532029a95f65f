"""The model against NVIDIA's own calculator, over random configurations.

``make occupancy`` runs a million; the environment variable gives another number.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kerneldsl.planner import COMPUTE_CAPABILITIES, occupancy
from tests.occupancy.answers import differences, model_answer
from tests.occupancy.configurations import kernel_of_row, random_configurations
from tests.occupancy.header import INPUTS, OUTPUTS, Header, find_header

COUNT_VARIABLE = "KERNELDSL_OCCUPANCY_CONFIGURATIONS"
_BATCH = 20_000


@pytest.fixture(scope="module")
def header(tmp_path_factory: pytest.TempPathFactory) -> Header:
    found = find_header(tmp_path_factory.mktemp("oracle"))
    if isinstance(found, str):
        if COUNT_VARIABLE in os.environ:
            pytest.fail(f"{COUNT_VARIABLE} is set, but {found}")
        pytest.skip(found)
    return found


def test_random_configurations(header: Header, rng: np.random.Generator) -> None:
    wanted = int(os.environ.get(COUNT_VARIABLE, _BATCH))
    done = 0
    seen: dict[str, int] = dict.fromkeys(
        ("nothing fits", "barriers limit", "virtual resources limit", "available", "potential"), 0
    )
    while done < wanted:
        count = min(_BATCH, wanted - done)
        rows, devices = random_configurations(rng, count)
        answers = header.ask(rows)
        for values, device, answer in zip(rows.tolist(), devices, answers.tolist(), strict=True):
            row = dict(zip(INPUTS, values, strict=True))
            theirs = dict(zip(OUTPUTS, answer, strict=True))
            ours = model_answer(device, kernel_of_row(row), row)
            found = differences(ours, theirs)
            assert not found, f"(ours, theirs): {found}\nconfiguration: {row}"
            seen["nothing fits"] += not ours["active_blocks"]
            seen["barriers limit"] += ours["limiting_factors"] == 16
            seen["virtual resources limit"] += ours["limiting_factors"] == 32
            seen["available"] += ours["available_status"] == 0
            seen["potential"] += ours["potential_block_threads"] > 0
        done += count
    print(
        f"{done} configurations, no difference from {header.path.name} of {header.version}; {seen}"
    )
    # Each kind of answer was met, and none crowded out the others.
    if done >= _BATCH:
        assert min(seen.values()) > done / 500, seen
        assert seen["nothing fits"] < 0.6 * done, seen


def test_the_header_knows_every_compute_capability(
    header: Header, rng: np.random.Generator
) -> None:
    rows, _ = random_configurations(rng, 5000)
    assert set(map(tuple, rows[:, :2].tolist())) == set(COMPUTE_CAPABILITIES)
    assert (header.ask(rows)[:, 0] == 0).all()


def test_the_comparison_notices_a_difference(header: Header) -> None:
    """A device that is told wrongly by one barrier, register unit or byte is caught."""
    rows, devices = random_configurations(np.random.default_rng(1), 3000)
    answers = header.ask(rows)
    for change in (
        {"register_allocation_unit": 512},
        {"register_partitions": 1},
        {"shared_memory_allocation_unit": 1},
        {"max_barriers_per_multiprocessor": 31},
        {"max_registers_per_thread": 255},
    ):
        found = 0
        for values, device, answer in zip(rows.tolist(), devices, answers.tolist(), strict=True):
            row = dict(zip(INPUTS, values, strict=True))
            ours = model_answer(replace(device, **change), kernel_of_row(row), row)
            found += bool(differences(ours, dict(zip(OUTPUTS, answer, strict=True))))
        assert found, change


def test_every_configuration_can_be_explained(rng: np.random.Generator) -> None:
    rows, devices = random_configurations(rng, 4000)
    for values, device in zip(rows.tolist(), devices, strict=True):
        row = dict(zip(INPUTS, values, strict=True))
        threads, dynamic = row["block_threads"], row["dynamic_shared_bytes"]
        found = occupancy(device, kernel_of_row(row), threads, dynamic)
        lines = found.explain().splitlines()
        assert lines[0] == found.summary()
        assert len(lines) >= 2 + len(found.limiters)
        assert str(threads) in lines[0]
        is_too_large = threads > row["kernel_max_threads_per_block"]
        assert ("launch would be refused" in lines[-1]) == is_too_large
        lines = lines[: len(lines) - is_too_large]
        if "One more block would fit" in lines[-1] or "A block would fit" in lines[-1]:
            number = int(re.search(r"with (\d+)", lines[-1])[1])
            kernel = kernel_of_row(row)
            if "registers" in lines[-1]:
                better = occupancy(device, replace(kernel, registers=number), threads, dynamic)
                worse = occupancy(device, replace(kernel, registers=number + 1), threads, dynamic)
            else:
                better = occupancy(device, kernel, threads, number)
                worse = occupancy(device, kernel, threads, number + 1)
            assert better.active_blocks > found.active_blocks, (lines, row)
            # 256 registers cannot be named, though they could be allocated.
            is_largest = number == 255 and "registers" in lines[-1]
            assert is_largest or worse.active_blocks == found.active_blocks, (lines, row)


def test_oracle_is_ours() -> None:
    """The header is included, not copied."""
    text = (Path(__file__).parent / "oracle.c").read_text()
    assert "#include <cuda_occupancy.h>" in text
