"""The modules that CuPy's tests see: the library's functions among NumPy's, and which were read."""

from __future__ import annotations

import numpy as np

import stdlib_kernels as sk
from tests.library.cupy_suite import namespace


def test_functions_of_the_library_take_the_place_of_numpys():
    assert {"sum", "dot", "pad", "transpose"} <= set(namespace.FUNCTIONS)
    assert not {"convolve", "partition"} & set(namespace.FUNCTIONS)
    for theirs, ours in namespace.FUNCTIONS.items():
        assert callable(getattr(np, theirs)), theirs
        assert callable(getattr(sk, ours)), ours


def test_what_a_test_reads_of_the_library_is_recorded(monkeypatch):
    monkeypatch.setattr(namespace, "named", set())
    made = namespace._Namespace("cupy", np, {"sum": namespace._with_arrays(sk.sum)})
    assert made.zeros is np.zeros
    assert namespace.named == set()
    found = made.sum(np.ones(3))
    assert isinstance(found, np.ndarray)
    assert found == 3
    assert namespace.named == {"sum"}
