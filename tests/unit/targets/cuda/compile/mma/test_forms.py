"""A step gives the product of its fragments by each instruction."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from llvmlite import ir

from targets.cuda.architectures import NEWEST_PTX, parse_arch
from targets.cuda.compile.mma.instructions import STEPS, Step
from tests.support.warp import fragment_places, run_warp

#: An architecture for each form of a step.
_ARCHS = ("sm_75", "sm_80", "sm_89")
_SHAPES = {1: "m16n8k32", 2: "m16n8k16", 4: "m16n8k8.tf32"}
_ROWS_OF_64_BITS = (0, 8)


def _dtype(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def _registers(matrix: np.ndarray, operand: str, itemsize: int, count: int) -> list[np.ndarray]:
    """Distribute a matrix to the lanes, after the figure of the instruction of 32 bytes."""
    if itemsize == 8:
        row, column = fragment_places("m8n8k4", operand, 0)
        starts = _ROWS_OF_64_BITS if operand == "a" else (0,)
        return [matrix[row + start, column] for start in starts]
    elements = 4 // itemsize
    lanes = np.stack(
        [
            matrix[fragment_places(_SHAPES[itemsize], operand, number)]
            for number in range(count * elements)
        ],
        axis=1,
    )
    return list(np.ascontiguousarray(lanes).view(np.uint32).T.copy())


def _function(step: Step, arch: str) -> ir.Function:
    function = ir.Function(ir.Module(), step.kind, "step")
    builder = ir.IRBuilder(function.append_basic_block())
    step.define(builder, function.args, parse_arch(arch), NEWEST_PTX)
    builder.ret_void()
    return function


_CELLS = [
    (name, arch)
    for name, step in STEPS.items()
    for arch in _ARCHS
    if step.form(parse_arch(arch), NEWEST_PTX)
]


@pytest.mark.parametrize(("name", "arch"), _CELLS)
def test_a_step_is_the_product_of_its_fragments(name: str, arch: str) -> None:
    step, rng = STEPS[name], np.random.default_rng(46)
    one, two = map(_dtype, step.dtypes)
    low = 0 if "uint8" in step.dtypes else -4
    a = rng.integers(low, 5, (16, step.depth)).astype(one)
    b = rng.integers(low, 5, (step.depth, 8)).astype(two)
    total = np.dtype(step.accumulator)
    c = rng.integers(-100, 100, (16, 8)).astype(total)
    memory = [c[fragment_places("m16n8k16", "c", number)] for number in range(4)]
    if total.kind == "i":
        memory = [each.view(np.uint32) for each in memory]
    registers = _registers(a, "a", step.itemsize, 4) + _registers(b, "b", step.itemsize, 2)
    run_warp(_function(step, arch), [(memory, 0), *registers])
    expected = a.astype(total) @ b.astype(total) + c
    for number in range(4):
        found = memory[number].view(total)
        np.testing.assert_array_equal(found, expected[fragment_places("m16n8k16", "c", number)])


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_all_numbers_of_eight_bits_are_exact_as_halves(dtype: str) -> None:
    step = STEPS[f"matrix_product_{dtype}_{dtype}"]
    function = _function(step, "sm_80")
    unit = np.zeros((32, 8), _dtype(dtype))
    unit[:8, :8] = np.eye(8)
    for first in range(0, 256, 128):
        numbers = np.arange(first, first + 128, dtype=np.uint8).reshape(16, 8).view(_dtype(dtype))
        a = np.zeros((16, 32), _dtype(dtype))
        a[:, :8] = numbers
        is_number = np.isfinite(numbers.astype(np.float32))
        a[:, :8][~is_number] = 0
        memory = [np.zeros(32, np.float32) for _ in range(4)]
        registers = _registers(a, "a", 1, 4) + _registers(unit, "b", 1, 2)
        run_warp(function, [(memory, 0), *registers])
        for number in range(4):
            places = fragment_places("m16n8k16", "c", number)
            expected = np.where(is_number, numbers.astype(np.float32), 0)[places]
            np.testing.assert_array_equal(memory[number], expected)
    a = np.zeros((16, 32), _dtype(dtype))
    a[3, 5] = np.nan
    memory = [np.zeros(32, np.float32) for _ in range(4)]
    run_warp(function, [(memory, 0), *_registers(a, "a", 1, 4), *_registers(unit, "b", 1, 2)])
    of_row = fragment_places("m16n8k16", "c", 0)[0] == 3
    assert np.isnan(memory[0][of_row]).all()
