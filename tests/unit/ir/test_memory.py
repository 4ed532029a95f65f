"""Arrays, records, tuples and vectors in the IR: the results of the code on the host.

The optimized module of an entry is run here for each thread of a grid. The reference that runs
kernels in Python gives the expected arrays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numba import types

import kerneldsl as kd
from kerneldsl.ir.printer import print_function
from kerneldsl.language.kinds import ArrayKind, Kind, TupleKind
from kerneldsl.lowering.numba_internals.compiling import global_compiler_lock, target_override
from targets.cuda.compile.numba_device import TARGET_NAME
from targets.cuda.compile.regions.read import read_kernel
from tests.ptx.helpers import specialize
from tests.support.cases import kind_of
from tests.support.cuda_regions import compile_regions
from tests.support.python_kernels import simulate
from tests.support.simulated_grid import SimulatedGrid
from tests.support.verifier import VerificationError, verify

_THREADS = 8
_RECORD = np.dtype([("n", np.int32), ("x", np.float64), ("v", np.int16, (3,))], align=True)
_PACKED = np.dtype([("n", np.int8), ("x", np.float32), ("z", np.complex64)])
_WIDE = np.array([0, 1, 2**53, 2**53 + 1, 2**62 + 1, 2**63 - 1, -1, -(2**63)])
_WEIGHTS = np.array([[3, 1, 4], [1, 5, 9]], np.int16)


def strided(x, out):
    i = kd.grid(1)
    out[i, 1] = x[i, -1] + x[-1, i % 3]


def transposed(x, out):
    i = kd.grid(1)
    t = x.T
    out[i, 0] = t[i % 3, i] + t.shape[0] * t.strides[1]
    out[i, -1] = t.T[i, 1]


def parts(x, out):
    i = kd.grid(1)
    row, column = x[i], x[:, 1]
    out[i, 0] = row[-1] + column[i]
    out[i, 1] = x[1:-1, ::-1][i % 3, 0] + x[..., 2][i]
    out[i, 2] = len(x[i % 4 :]) + x[2:5].size


def sliced_store(x, out):
    i = kd.grid(1)
    row = out[i, 1:]
    row[0] = x[i, 0]
    row[-1] += 2


def captured(x, out):
    i = kd.grid(1)
    out[i, 0] = _WEIGHTS[i % 2, i % 3] + _WEIGHTS[1][-1]


def local(x, out):
    i = kd.grid(1)
    a = kd.local.array((2, 3), kd.float64)
    for k in range(6):
        a[k // 3, k % 3] = x[i, k % 3] * k
    out[i, 2] = a[1, i % 3] - a[0, -1]


def attributes(x, out):
    i = kd.grid(1)
    out[i, 0] = x.dtype.type(i * 1.5) + x.size + x.ndim
    out[i, 1] = x.itemsize


def records(r, out):
    i = kd.grid(1)
    row = r[i]
    r[i].n = row.n + 1
    r[i]["x"] += r.x[i] * 2
    row.v[1] = row["v"][0] + row.v[-1]
    out[i] = r["n"][i] + row.x
    r[-1] = r[0]


def packed_records(r, out):
    i = kd.grid(1)
    r[i].n += 3
    out[i] = r[i].z.real - r[i]["z"].imag + r[i].x


def record_argument(r, out):
    i = kd.grid(1)
    out[i] = r.n * r.x + r.v[i % 3]


def complex_numbers(z, out):
    i = kd.grid(1)
    out[i] = z[i].conjugate() * (1 - 2j) + z[i].real


def tuples(pair, out):
    i = kd.grid(1)
    first, second = pair[0], pair[1]
    both = divmod(first[i], 3)
    out[i] = second[0][i] * second[1] + both[i % 2] + pair[0][-1]


def vectors(x, out):
    i = kd.grid(1)
    pairs = kd.view(x, kd.float32x2)
    v = pairs[i] * 2 + kd.float32x2(i, 1)
    kd.view(out, kd.float32x2)[i] = v
    out[i] += v.x + v[1]


def packed_numbers(words, out):
    i = kd.grid(1)
    numbers = kd.packed(words, kd.int4)
    out[i] = numbers[i] * 10 + numbers[-1 - i] + len(numbers)


def flags(a, out):
    i = kd.grid(1)
    out[i] = a[i] and not a[-1]


def empty_index(x, out):
    out[()] = x[()] + 1


def compared(a, b, out):
    i = kd.grid(1)
    out[i] = (a[i] < b[i]) + 2 * (a[i] == b[i]) + 4 * (max(a[i], b[i]) == a[i])


_IS_DOUBLED = False


def known_condition(x, out):
    i = kd.grid(1)
    best = 0.0
    for k in range(3):
        value = x[i, k]
        is_even = value > 1 and (i + k) % 2 == 0
        if k == 3 or value > 5 or is_even:
            best = value + 1
    out[i, 0] = best


def unpacked(x, out):
    i = kd.grid(1)
    (first, _, last), other = x[i], x.T[0]
    out[i, 1] = first - last + other[i]


def unassigned(x, out):
    i = kd.grid(1)
    for k in range(3):
        for j in range(2):
            row = x[i]
            if _IS_DOUBLED:
                other = row[k] * 2
                row = x[int(other)]
            if k > j:
                late = x[:, j]
                out[i, k] += row[k] + late[i]


def chosen(x, out):
    i = kd.grid(1)
    out[i, 0] = np.clip(x[i, 0], 2, None) + np.where(i > 3, x[i, 1], x[i, 2])
    out[i, 1] = max(x[i, 0], x[i, 1]) + abs(-x[i, 0])


def _x(order: str = "C") -> Any:
    return np.asarray(np.arange(24.0).reshape(8, 3) / 4, order=order)


def _out() -> Any:
    return np.zeros((8, 3))


def _records(dtype: Any) -> Any:
    found = np.zeros(8, dtype)
    for name in dtype.names:
        found[name] = np.arange(found[name].size).reshape(found[name].shape) + 1
    return found


_CASES: list[tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = [
    *((k, lambda: (_x(), _out())) for k in (strided, transposed, parts, sliced_store, captured)),
    *((k, lambda: (_x("F"), _out())) for k in (strided, transposed, parts, sliced_store, local)),
    *((k, lambda: (_x()[::-1], np.zeros((8, 6))[:, ::2])) for k in (strided, transposed, parts)),
    *((k, lambda: (_x(), _out())) for k in (local, attributes, chosen, unassigned, unpacked)),
    (known_condition, lambda: (_x() * 1.5 - (_x() > 4) * 4, _out())),
    (records, lambda: (_records(_RECORD), np.zeros(8))),
    (records, lambda: (_records(_RECORD)[::-1], np.zeros(8))),
    (packed_records, lambda: (_records(_PACKED), np.zeros(8, np.float32))),
    (record_argument, lambda: (_records(_RECORD)[1], np.zeros(8))),
    (complex_numbers, lambda: (np.arange(8) * (1 + 1j), np.zeros(8, np.complex128))),
    (tuples, lambda: ((np.arange(8), (np.arange(8.0), 3)), np.zeros(8))),
    (vectors, lambda: (np.arange(16, dtype=np.float32), np.zeros(16, np.float32))),
    (packed_numbers, lambda: (np.arange(250, 258).astype(np.uint8), np.zeros(8, np.int64))),
    (compared, lambda: (_WIDE.astype(np.uint64), _WIDE - (_WIDE > 0), np.zeros(8, np.int8))),
    (flags, lambda: (np.arange(8) % 3 == 0, np.zeros(8, bool))),
    (empty_index, lambda: (np.array(3.0), np.array(0.0))),
]


def _flat(value: Any, kind: Kind) -> Iterator[Any]:
    """Yield the parameters that pass an argument."""
    if isinstance(kind, TupleKind):
        for each in zip(value, kind.elements, strict=True):
            yield from _flat(*each)
    elif isinstance(kind, ArrayKind):
        yield from (value.ctypes.data, *value.shape)
        if kind.layout == "A":
            yield from value.strides
    elif isinstance(value, np.void):
        yield from np.frombuffer(value.tobytes().ljust(-(-value.nbytes // 8) * 8, b"\0"), np.int64)
    else:
        yield value


def _arrays(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple):
        for each in value:
            yield from _arrays(each)
    elif isinstance(value, np.ndarray):
        yield value if value.base is None else value.base


def _results(artifact: Any, kinds: tuple[Kind, ...], arguments: tuple[Any, ...]) -> list[bytes]:
    values = [v for each in zip(arguments, kinds, strict=True) for v in _flat(*each)]
    SimulatedGrid(artifact).run((1, 1, 1), (_THREADS, 1, 1), values)
    return [array.tobytes() for array in _arrays(arguments)]


def _with_fields(value: Any) -> Any:
    """Return records whose fields are attributes, too."""
    if isinstance(value, np.void):
        return value.view((np.record, value.dtype))
    if isinstance(value, np.ndarray) and value.dtype.names:
        return value.view(np.recarray)
    return value


def _expected(kernel: Any, arguments: tuple[Any, ...]) -> list[bytes]:
    simulate(kd.kernel(kernel), 1, _THREADS, tuple(map(_with_fields, arguments)))
    return [array.tobytes() for array in _arrays(arguments)]


@pytest.mark.parametrize(("kernel", "make"), _CASES)
def test_results_are_those_of_the_reference(kernel: Any, make: Any) -> None:
    kinds = tuple(kind_of(each) for each in make())
    artifact = compile_regions(specialize(kernel, kinds), arch="sm_90")
    found = _results(artifact, kinds, make())
    assert found == _expected(kernel, make())
    assert found != [array.tobytes() for array in _arrays(make())]


@kd.func
def doubled(x):
    a = kd.shared.array(32, kd.float32)
    a[kd.threadIdx.x] = x
    kd.syncthreads()
    return a[31 - kd.threadIdx.x]


def twice(x):
    t = kd.threadIdx.x
    y = doubled(x[t])
    kd.syncthreads()
    rest = kd.shared.array(0, kd.float32)
    rest[t] = doubled(y)
    x[t] = rest[rest.size - 1 - t]


def test_a_function_that_is_called_twice_has_its_shared_memory_once() -> None:
    ptx = compile_regions(specialize(twice, "float32[::1]"), arch="sm_90").ptx
    assert len(re.findall(r"^\s*\.shared", ptx, re.MULTILINE)) == 1
    assert len(re.findall(r"^\.extern \.shared", ptx, re.MULTILINE)) == 1


def hinted(x, out):
    i = kd.grid(1)
    kd.store(out, i, kd.load(x, i, cache="streaming") + 1, cache="through")


@pytest.mark.parametrize(
    ("dtype", "bits"), [("int8", "b8"), ("float16", "b16"), ("complex64", "v2.b32")]
)
def test_hints_are_those_of_the_instructions(dtype: str, bits: str) -> None:
    ptx = compile_regions(specialize(hinted, f"{dtype}[::1], {dtype}[::1]"), arch="sm_90").ptx
    found = re.findall(r"(?:ld|st)\.global\.c[sg][\w.]*|st\.global\.wt[\w.]*", ptx)
    assert found == [f"ld.global.cs.{bits}", f"st.global.wt.{bits}"]


def shared_vectors(x):
    t = kd.threadIdx.x
    a = kd.shared.array(128, kd.float32)
    kd.view(a, kd.float32x4)[t] = kd.view(x, kd.float32x4)[t]
    kd.syncthreads()
    kd.view(x, kd.float32x4)[t] = kd.view(a, kd.float32x4)[31 - t]


def codes(words, out):
    i = kd.grid(1)
    numbers = kd.packed(words, kd.int4)
    if i < numbers.size and numbers.shape[0] == len(numbers):
        out[i] = numbers[i]


def test_shared_memory_is_aligned_for_vectors() -> None:
    ptx = compile_regions(specialize(shared_vectors, "float32[::1]"), arch="sm_90").ptx
    assert "ld.shared.v4.b32" in ptx
    assert "st.shared.v4.b32" in ptx


def test_numbers_of_a_view_are_read_without_wraparound() -> None:
    assert "may_wrap" not in print_function(_read(codes, "uint8[::1], int8[::1]"))


def printed(x):
    i = kd.grid(1)
    print("element", i, x[i], x[i] > 1)


def test_texts_are_printed() -> None:
    ptx = compile_regions(specialize(printed, "float32[::1]"), arch="sm_90").ptx
    assert "vprintf" in ptx
    codes_of_text = ", ".join(str(code) for code in b"element %lld ")
    assert codes_of_text in ptx


def _read(kernel: Any, signature: Any) -> Any:
    with global_compiler_lock, target_override(TARGET_NAME):
        return read_kernel(specialize(kernel, signature))[0]


@pytest.mark.parametrize("kernel", [strided, transposed, parts, captured, tuples, records])
def test_operations_obey_the_rules_and_are_printed(kernel: Any) -> None:
    make = next(each for known, each in _CASES if known is kernel)
    function = _read(kernel, tuple(kind_of(each) for each in make()))
    verify(function)
    text = print_function(function)
    assert "array.store" in text
    assert ("item.set[index=n]" in text) == (kernel is records)
    assert ("array.view[" in text) == (kernel is parts)


def test_an_element_of_another_type_breaks_a_rule() -> None:
    function = _read(strided, "float32[:, ::1], float32[:, ::1]")
    store = next(each for each in function.body.walk() if each.name == "array.store")
    store.operands[-1].type = types.int64
    with pytest.raises(VerificationError, match="int64"):
        verify(function)
