"""Code has room for large captured arrays, which are copied there when it is loaded."""

from __future__ import annotations

import ctypes
import re
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.frontend.normalize import make_unit
from kerneldsl.lowering.captured_arrays import elements, large_arrays
from targets.cuda.driver import functions
from targets.cuda.driver.driver import Driver
from tests.support.driver_bindings import FakeBindings

BIG = np.arange(2**24, dtype=np.int8)
BIG.flags.writeable = False
COLUMNS = np.asfortranarray(np.arange(300.0 * 200).reshape(300, 200))
COLUMNS.flags.writeable = False
SMALL = np.arange(8_000)
SMALL.flags.writeable = False
PAIR = (np.full(20_000, 1.5), np.full(20_000, np.float32(2.5)))
for each in PAIR:
    each.flags.writeable = False
MANY = tuple(np.full(10_000, float(n)) for n in range(20))
for each in MANY:
    each.flags.writeable = False


@kd.func
def of_columns(i):
    return COLUMNS[i % 300, i % 200]


def copy(o):
    i = kd.grid(1)
    o[i] = BIG[i % BIG.size] + of_columns(i) + SMALL[i % SMALL.size] + PAIR[0][i] + PAIR[1][i]


def sums(o):
    i = kd.grid(1)
    for values in MANY:
        o[i] += values[i]


def artifact_of(function: Any) -> Any:
    return kd.kernel(function).artifact(np.zeros(8), target="cuda", arch="sm_90")


def name_of(array: np.ndarray) -> str:
    (found,) = (
        n for n, a in large_arrays(make_unit(reads_all)).items() if a is array or equal(a, array)
    )
    return found


def equal(one: np.ndarray, two: np.ndarray) -> bool:
    return one.dtype == two.dtype and np.array_equal(one, two)


def reads_all(o):
    i = kd.grid(1)
    o[i] = BIG[i] + COLUMNS[i, i] + PAIR[0][i] + PAIR[1][i]


def test_large_arrays_are_no_text() -> None:
    artifact = artifact_of(copy)
    ptx = artifact.ptx
    assert len(ptx) < 5 * SMALL.nbytes + 20_000
    rooms = dict(re.findall(r"^\.visible \.global \.align 16 \.b8 (kd_\w+)\[(\d+)\];$", ptx, re.M))
    wanted = {name_of(each): str(each.nbytes) for each in (BIG, COLUMNS, *PAIR)}
    assert rooms == wanted
    assert "ld.global.nc" in ptx


def test_many_arrays_are_no_text() -> None:
    artifact = artifact_of(sums)
    assert len(artifact.ptx) < 100_000
    assert len(artifact.contents()) == len(MANY)


def test_contents_are_found_by_their_names() -> None:
    found = artifact_of(copy).contents()
    assert len(found) == 4
    np.testing.assert_array_equal(found[name_of(BIG)], BIG)
    np.testing.assert_array_equal(found[name_of(COLUMNS)], COLUMNS.ravel("F"))
    assert all(values.flags.c_contiguous and values.ndim == 1 for values in found.values())


def test_code_without_large_arrays_has_nothing_to_fill() -> None:
    def plain(o):
        o[kd.grid(1)] = SMALL[3]

    assert artifact_of(plain).contents() == {}


def test_arrays_of_plain_numba_functions_are_text() -> None:
    """They are no constants of the kernel, so nobody would find them when the code is loaded."""
    numba = pytest.importorskip("numba")

    @numba.njit
    def looked_up(i):
        return PAIR[0][i]

    def kernel(o):
        i = kd.grid(1)
        o[i] = looked_up(i) + BIG[i]

    artifact = artifact_of(kernel)
    assert artifact.contents().keys() == set(
        re.findall(r"^\.visible \.global .* (kd_\w+)\[", artifact.ptx, re.M)
    )


class Memory(FakeBindings):
    """A driver whose modules have one variable."""

    def __init__(self) -> None:
        super().__init__()
        self.room = ctypes.create_string_buffer(COLUMNS.nbytes)

    def do_cuModuleGetGlobal(self, module: int, name: bytes) -> tuple[Any, ...]:
        return ctypes.addressof(self.room), COLUMNS.nbytes

    def do_cuStreamCreate(self, flags: int) -> tuple[Any, ...]:
        assert flags == 1  # waits for no other stream
        return (0x55,)

    def do_cuMemcpyHtoDAsync(
        self, to: int, source: int, nbytes: int, stream: int
    ) -> tuple[Any, ...]:
        assert stream == 0x55
        ctypes.memmove(to, source, nbytes)
        return ()


@pytest.mark.parametrize("is_wrong", [False, True])
def test_loading_fills_the_room(is_wrong: bool) -> None:
    api = Memory()
    values, name = elements(COLUMNS), name_of(COLUMNS)
    if is_wrong:
        api.failures["cuMemcpyHtoDAsync"] = 2
        with pytest.raises(Exception, match="copy a captured array of 480000 bytes"):
            functions.load(Driver(api), 0, "", "entry", contents={name: values})
    else:
        functions.load(Driver(api), 0, "", "entry", contents={name: values})
        assert api.room.raw[: COLUMNS.nbytes] == values.tobytes()
        assert ("cuModuleGetGlobal", 0x77, name.encode()) in api.calls
    names = api.names()
    assert names.count("cuStreamDestroy") == 1
