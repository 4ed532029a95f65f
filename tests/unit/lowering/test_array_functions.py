"""Numba's functions of whole arrays find BLAS when they need it."""

from __future__ import annotations

import pytest
from numba.core.compiler_lock import global_compiler_lock
from numba.np import arraymath, linalg

from kerneldsl.lowering.numba_internals.arrays import _Found
from kerneldsl.lowering.numba_internals.host_code import host_contexts


def test_numba_looks_for_blas_as_it_would_itself() -> None:
    with global_compiler_lock:
        host_contexts()
    assert arraymath.ensure_blas is linalg.ensure_blas
    assert linalg.ensure_blas.__module__ == linalg.__name__
    assert bool(arraymath._HAVE_BLAS) is arraymath._check_blas()


@pytest.mark.parametrize("is_there", [True, False])
def test_it_is_looked_for_once_and_late(is_there: bool) -> None:
    calls = []
    found = _Found(lambda: calls.append(1) or is_there)
    assert not calls
    assert bool(found) is bool(found) is is_there
    assert len(calls) == 1
