"""What the targets that compile through Numba share."""

from __future__ import annotations

import ast
import struct

import numba
import pytest
from numba import types

from kerneldsl.errors import ArgumentTypeError, KernelFault, SourceLocation
from kerneldsl.language.kinds import DTYPE_NAMES, ArrayKind, Kind, ScalarKind, TupleKind
from kerneldsl.lowering.build import build_function
from kerneldsl.lowering.faults import (
    FAULT_FIELDS,
    FAULT_RECORD_BYTES,
    FaultSite,
    FaultTable,
    raise_fault,
)
from kerneldsl.lowering.trees import copy_tree
from kerneldsl.lowering.types import kind_of_numba, kinds_of_signature, numba_type

KINDS: list[Kind] = [
    *(ScalarKind(name) for name in DTYPE_NAMES),
    *(ArrayKind(name, 2, "F") for name in DTYPE_NAMES),
    ArrayKind("float32", 0),
    ArrayKind("bool", 3, "A"),
    TupleKind((ScalarKind("int32"), ArrayKind("float64", 1))),
    TupleKind((ScalarKind("int64"), ScalarKind("int64"))),
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_kinds_and_numba_types_go_both_ways(kind: Kind) -> None:
    assert kind_of_numba(numba_type(kind)) == kind


def test_arrays_are_mutable_and_aligned() -> None:
    array = numba_type(ArrayKind("float32", 1))
    assert array.mutable
    assert array.aligned


def test_signatures() -> None:
    expected = (ArrayKind("float32", 1, "A"), ScalarKind("int32"))
    for signature in (
        "float32[:], int32",
        "void(float32[:], int32)",
        numba.void(numba.float32[:], numba.int32),
        (numba.float32[:], numba.int32),
    ):
        assert kinds_of_signature(signature) == expected
    assert kinds_of_signature(numba.int8) == (ScalarKind("int8"),)


@pytest.mark.parametrize("signature", ["float99", 3, [1, 2], (types.unicode_type,)])
def test_signatures_that_are_none(signature: object) -> None:
    with pytest.raises(ArgumentTypeError):
        kinds_of_signature(signature)


def test_build_function_keeps_the_users_lines() -> None:
    tree = ast.parse("def f(x):\n    y = x + K\n    return y")
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    ast.increment_lineno(tree, 40)
    del function.body[0].end_lineno  # as a pass may leave it
    function.body[1].end_col_offset = 0
    before = ast.dump(function)
    built = build_function(function, "entry", {"K": 3, "entry": 7}, "/the/users/file.py")
    assert built(4) == 7
    assert built.__name__ == "entry"
    assert built.__globals__["entry"] == 7
    assert built.__code__.co_filename == "/the/users/file.py"
    assert {line for *_, line in built.__code__.co_lines() if line} >= {42, 43}
    assert ast.dump(function) == before


def test_copies_share_what_hangs_at_a_node() -> None:
    tree = ast.parse("a[i] = b")
    origin = object()
    tree.body[0].kd_origin = origin  # type: ignore[attr-defined]
    copied = copy_tree(tree)
    assert copied.body[0] is not tree.body[0]
    assert copied.body[0].kd_origin is origin  # type: ignore[attr-defined]
    assert ast.dump(copied) == ast.dump(tree)


WHERE = SourceLocation("kernel.py", 12, 4, 8, "kernel")
TABLE = FaultTable(
    (
        FaultSite(IndexError, "", WHERE, "a"),
        FaultSite(ValueError, "n is negative", WHERE),
        FaultSite(AssertionError, "", WHERE),
    )
)


def record(**fields: int) -> bytes:
    data = bytearray(FAULT_RECORD_BYTES)
    for name, code, offset in FAULT_FIELDS:
        struct.pack_into("=" + code, data, offset, fields.pop(name, 0))
    assert not fields
    return bytes(data)


def test_an_empty_record_is_no_fault() -> None:
    assert FAULT_RECORD_BYTES == 56
    raise_fault(record(), TABLE)


def test_an_index_out_of_range() -> None:
    data = record(
        state=1, site=0, axis=1, index=-9, bound=8, thread_x=3, thread_y=1, block_x=5, block_z=2
    )
    with pytest.raises(IndexError, match="Index -9 is out of range for axis 1 of a") as caught:
        raise_fault(data, TABLE)
    fault = caught.value
    assert isinstance(fault, KernelFault)
    assert fault.thread_idx == (3, 1, 0)
    assert fault.block_idx == (5, 0, 2)
    assert fault.where == WHERE
    assert "whose extent is 8" in str(fault)


def test_what_a_kernel_raised() -> None:
    with pytest.raises(ValueError, match=r"ValueError in thread \(0, 0, 0\).*: n is negative"):
        raise_fault(record(state=1, site=1), TABLE)
    with pytest.raises(AssertionError):
        raise_fault(record(state=1, site=2), TABLE)
