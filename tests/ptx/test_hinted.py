"""Loads and stores with hints for caches: instructions, addresses, what LLVM may move."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.contract import ArrayPromises, Promises
from kerneldsl.errors import KernelTypingError, UnsupportedConstructError
from kerneldsl.language.intrinsics.memory import load, store
from kerneldsl.language.kinds import ArrayKind
from tests.ptx.helpers import (
    ARCH_PARAMETERS,
    ASSEMBLED_ARCHS,
    QUICK_ARCHS,
    assemble_together,
    body_of,
    compile_ptx,
    lower,
    write,
)
from tests.support.extent import full_beyond

_ALIGNED = Promises((ArrayPromises(16), ArrayPromises(16)), is_disjoint=True)
_LOADS = {"all": "ca", "global": "cg", "streaming": "cs", "last_use": "lu", "again": "cv"}
_STORES = {"all": "wb", "global": "cg", "streaming": "cs", "through": "wt"}
_BITS = {"bool": 8, "int8": 8, "bfloat16": 16, "float16": 16, "uint32": 32, "float64": 64}


def _accesses(ptx: str) -> list[str]:
    return re.findall(r"\b(?:ld|st)(?!\.param)\.\S+", ptx)


def _copying(loading: str, storing: str) -> Any:
    def copy(x, out):  # type: ignore[no-untyped-def]
        i = kd.grid(1)
        kd.store(out, i, kd.load(x, i, cache=loading), storing)

    return copy


def test_every_hint_is_an_operator_of_ptx() -> None:
    assert load.choices["cache"] == tuple(_LOADS)
    assert store.choices["cache"] == tuple(_STORES)


@pytest.mark.parametrize("arch", ARCH_PARAMETERS)
@pytest.mark.parametrize(("loading", "storing"), list(zip(_LOADS, (*_STORES, "all"), strict=True)))
def test_every_hint_is_one_instruction(loading: str, storing: str, arch: str) -> None:
    compiled = compile_ptx(_copying(loading, storing), "float32[::1], float32[::1]", arch)
    assert _accesses(body_of(compiled)) == [
        f"ld.global.{_LOADS[loading]}.b32",
        f"st.global.{_STORES[storing]}.b32",
    ]


@pytest.mark.parametrize("dtype", _BITS)
def test_every_width(dtype: str) -> None:
    compiled = compile_ptx(_copying("global", "streaming"), f"{dtype}[::1], {dtype}[::1]")
    bits = _BITS[dtype]
    assert _accesses(body_of(compiled)) == [f"ld.global.cg.b{bits}", f"st.global.cs.b{bits}"]


def _vectors(x, out):
    i = kd.grid(1)
    xs, outs = kd.view(x, kd.float32x4), kd.view(out, kd.float32x4)
    if i < outs.size:
        kd.store(outs, i, kd.load(xs, i, "streaming") * 2, "streaming")


def test_an_aligned_vector_is_one_access() -> None:
    compiled = compile_ptx(_vectors, "float32[::1], float32[::1]", promises=_ALIGNED)
    assert _accesses(compiled.ptx) == ["ld.global.cs.v4.b32", "st.global.cs.v4.b32"]


def test_a_vector_that_may_not_be_aligned_is_asked_for_its_address() -> None:
    found = _accesses(compile_ptx(_vectors, "float32[::1], float32[::1]").ptx)
    assert (found.count("ld.global.b32"), found.count("st.global.b32")) == (4, 4)
    assert found.count("ld.global.cs.v4.b32") == found.count("st.global.cs.v4.b32") == 1
    assert len(found) == 10


def _of_block(x):
    held = kd.shared.array(32, np.float32)
    t = kd.threadIdx.x
    kd.store(held, t, x[t], "streaming")
    kd.syncthreads()
    x[t] = kd.load(held, 31 - t, "streaming")


def test_shared_memory_has_no_hints() -> None:
    found = _accesses(compile_ptx(_of_block, "float32[::1]").ptx)
    assert found == ["ld.global.b32", "st.shared.b32", "ld.shared.b32", "st.global.b32"]


def _between(x, out):
    i = kd.grid(1)
    first = kd.load(x, i, "streaming")
    out[i] = first + 1
    out[i + 1] = kd.load(x, i, "streaming")


def test_no_load_is_moved_across_a_store_of_the_same_memory() -> None:
    """`x` and `out` may be one array; where they are known not to be, one load is enough."""
    signature = "int32[::1], int32[::1]"
    found = _accesses(compile_ptx(_between, signature).ptx)
    assert found == ["ld.global.cs.b32", "st.global.b32"] * 2
    apart = _accesses(compile_ptx(_between, signature, promises=_ALIGNED).ptx)
    assert apart.count("st.global.b32") == 2
    assert apart[0] == "ld.global.cs.b32"


_PAIR = "Record(a: int32 @ 0, b: int32 @ 4; 8)"


def _row(x, out):
    out[0] = kd.load(x, 0)


def _record(x):
    kd.store(x, 0, x[1], "streaming")


def _of_number(x, out):
    out[0] = kd.load(out[0], 0)


@pytest.mark.parametrize(
    ("function", "signature", "message"),
    [
        (_row, "float32[:, ::1], float32[::1]", "Give an index for each axis"),
        (_record, (ArrayKind(_PAIR, 1, "C"),), "array of a field"),
        (_of_number, "float32[::1], float32[::1]", "float32"),
    ],
)
def test_what_is_no_element_is_refused(function: Any, signature: Any, message: str) -> None:
    with pytest.raises(KernelTypingError, match=message):
        lower(function, signature)


@pytest.mark.parametrize(
    ("function", "shape", "message"), [(_row, (2, 3), "an index for each axis")]
)
def test_so_it_is_on_a_cpu(function: Any, shape: tuple[int, ...], message: str) -> None:
    with kd.use("cpu"), pytest.raises(KernelTypingError, match=message):
        kd.kernel(function)[1, 1](np.zeros(shape, np.float32), np.zeros(3, np.float32))
    record = np.zeros(2, [("a", np.int32), ("b", np.int32)])
    with kd.use("cpu"), pytest.raises(KernelTypingError, match="array of a field"):
        kd.kernel(_record)[1, 1](record)


def test_a_store_gives_no_value() -> None:
    @kd.kernel
    def kernel(x):  # type: ignore[no-untyped-def]
        x[0] = kd.store(x, 0, 1)

    with kd.use("cpu"), pytest.raises(UnsupportedConstructError, match="used as a value"):
        kernel[1, 1](np.zeros(1))


def test_another_hint_is_refused() -> None:
    @kd.kernel
    def kernel(x):  # type: ignore[no-untyped-def]
        x[0] = kd.load(x, 1, cache="through")

    text = "cache is 'through'. Write one of 'all', 'global', 'streaming', 'last_use', 'again'"
    with kd.use("cpu"), pytest.raises(UnsupportedConstructError, match=re.escape(text)):
        kernel[1, 1](np.zeros(2))


@pytest.mark.parametrize("arch", full_beyond(ASSEMBLED_ARCHS, QUICK_ARCHS[1:2]))
def test_every_access_is_assembled(arch: str) -> None:
    copies = [
        (_copying(loading, storing), f"{dtype}[::1], {dtype}[::1]")
        for loading, storing in zip(_LOADS, (*_STORES, "all"), strict=True)
        for dtype in (*_BITS, "complex64", "complex128")
    ]
    kernels = [*copies, (_vectors, "float32[::1], float32[::1]"), (_of_block, "float32[::1]")]
    written = [write(lower(*each), arch) for each in kernels]
    assert assemble_together(written, arch) == len(written)
