"""No intrinsic, on no dtype it takes, is without a case."""

from __future__ import annotations

import ast

import pytest

from kerneldsl.frontend.source import find_source
from kerneldsl.language.element_types import DTYPE_NAMES, ELEMENT_TYPES
from kerneldsl.language.intrinsics.intrinsic import Typing
from kerneldsl.language.intrinsics.table import INTRINSICS
from kerneldsl.language.kinds import ArrayKind, ScalarKind
from targets.cpu.intrinsics.table import LOWERINGS, Refused
from tests.conformance.kernels import CASES
from tests.support.arrays import HOST_DTYPES
from tests.support.cases import Case
from tests.support.python_kernels import unit_of, uses_of

#: What the typed front end makes of operators and conversions of tiles. No program calls them, and
#: the normal form shows neither; each case of tiles has some.
MADE_WITH_TYPES = {"tile.cast", "tile.each"}


def _used(case: Case) -> set[tuple[str, str]]:
    """(intrinsic, dtype) of everything the case's kernel calls; dtype is "" where there is none."""
    found: set[tuple[str, str]] = set()
    for use in uses_of(unit_of(case.kernel)):
        intrinsic = use.intrinsic
        if intrinsic.typing is Typing.ARRAY:
            found.add((intrinsic.name, use.static["dtype"]))
        elif intrinsic.dtypes:
            found.add((intrinsic.name, case.dtype or ""))
        else:
            found.add((intrinsic.name, ""))
    return found


@pytest.mark.full
def test_every_intrinsic_on_every_dtype() -> None:
    covered = set().union(*(_used(c) for c in CASES))
    wanted: set[tuple[str, str]] = set()
    for name, intrinsic in INTRINSICS.items():
        if intrinsic.typing is Typing.CONSTANT:  # of which the normal form shows nothing
            assert any(
                name in ast.unparse(find_source(case.kernel.function).node) for case in CASES
            )
            continue
        if name in MADE_WITH_TYPES:
            continue
        if isinstance(LOWERINGS[name], Refused):  # there is one target: tests/ptx/test_inline.py
            continue
        dtypes = DTYPE_NAMES if intrinsic.typing is Typing.ARRAY else intrinsic.dtypes or ("",)
        wanted |= {(name, dtype) for dtype in dtypes if dtype in ("", *HOST_DTYPES)}
    assert not wanted - covered


def test_every_element_type_is_tried() -> None:
    missing = [ELEMENT_TYPES[name].package for name in DTYPE_NAMES if name not in HOST_DTYPES]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}; its dtypes are in no case")


def test_every_dtype_as_array_and_as_scalar() -> None:
    kinds = {kind for case in CASES for kind in case.kinds}
    for dtype in HOST_DTYPES:
        assert ArrayKind(dtype, 1, "C") in kinds, dtype
        assert ScalarKind(dtype) in kinds, dtype


def test_every_atomic_case_is_of_its_dtype() -> None:
    """``Case.dtype`` is what the kernel's arrays hold, so that coverage cannot be claimed."""
    for case in CASES:
        if case.dtype is not None:
            held = {k.dtype for k in case.kinds if isinstance(k, ArrayKind)}
            if case.name.startswith("chains."):
                held -= {"int64", "uint64"} - {case.dtype}  # of the state
            assert held == {case.dtype}, case.name
