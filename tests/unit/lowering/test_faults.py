"""Numba's types of arguments, and faults."""

from __future__ import annotations

import struct

import numba
import numpy as np
import pytest

from kerneldsl.errors import KernelFault, SourceLocation
from kerneldsl.frontend.normalize import make_unit
from kerneldsl.language.element_types import ELEMENT_TYPES, NUMPY_NAMES
from kerneldsl.language.kinds import ArrayKind
from kerneldsl.lowering.faults import (
    FAULT_FIELDS,
    FAULT_RECORD_BYTES,
    FaultSite,
    FaultTable,
    raise_fault,
)
from kerneldsl.lowering.types import numba_type
from tests.support.cases import kind_of

#: Those whose type is Numba's own.
NAMES = [name for name in NUMPY_NAMES if not ELEMENT_TYPES[name].is_narrow]
VALUES = [
    *(np.dtype(name).type(0) for name in NAMES),
    *(np.empty((2, 3), name, order="F") for name in NAMES),
    np.empty((), np.float32),
    np.empty((2, 2, 4), np.bool_)[:, :, ::2],
    (np.int32(1), np.empty(3)),
    (np.int64(1), np.int64(2)),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: str(kind_of(value)))
def test_numba_sees_the_same_types_in_values(value: object) -> None:
    found = numba_type(kind_of(value))
    assert found == numba.typeof(value)


def test_arrays_are_mutable_and_aligned() -> None:
    array = numba_type(ArrayKind("float32", 1))
    assert array.mutable
    assert array.aligned


def kernel() -> None:
    pass


KERNEL = make_unit(kernel)
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
    raise_fault(record(), TABLE, KERNEL)


def test_an_index_out_of_range() -> None:
    data = record(
        state=1, site=0, axis=1, index=-9, bound=8, thread_x=3, thread_y=1, block_x=5, block_z=2
    )
    with pytest.raises(IndexError, match="Index -9 is out of range for axis 1 of a") as caught:
        raise_fault(data, TABLE, KERNEL)
    fault = caught.value
    assert isinstance(fault, KernelFault)
    assert fault.thread_idx == (3, 1, 0)
    assert fault.block_idx == (5, 0, 2)
    assert fault.where == WHERE
    assert "with extent 8" in str(fault)


def test_an_unsigned_index_is_no_index_from_the_end() -> None:
    data = record(state=1, site=0, axis=1, index=-3, bound=8)
    with pytest.raises(IndexError, match=f"Index {2**64 - 3} is out of range") as caught:
        raise_fault(data, TABLE, KERNEL)
    assert "Valid are 0 to 7" in str(caught.value)
    assert "-1" not in str(caught.value)


def test_what_a_kernel_raised() -> None:
    with pytest.raises(ValueError, match=r"ValueError in thread \(0, 0, 0\).*: n is negative"):
        raise_fault(record(state=1, site=1), TABLE, KERNEL)
    with pytest.raises(AssertionError):
        raise_fault(record(state=1, site=2), TABLE, KERNEL)
