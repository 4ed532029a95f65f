"""The null target's memory finds what a device would be hurt by."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from kerneldsl.errors import DriverError, OutOfMemoryError
from targets.null.devices import H100, SMALL_OLD_CARD
from targets.null.memory import ALIGNMENT, AddressSpace


@pytest.fixture
def space() -> AddressSpace:
    return AddressSpace(H100)


def _write(space: AddressSpace, address: int, data: bytes) -> None:
    held = ctypes.create_string_buffer(data, len(data))
    space.write(address, ctypes.addressof(held), len(data))


def _read(space: AddressSpace, address: int, nbytes: int) -> bytes:
    held = ctypes.create_string_buffer(nbytes)
    space.read(address, ctypes.addressof(held), nbytes)
    return held.raw


def test_round_trip_and_offsets(space: AddressSpace) -> None:
    address = space.allocate(100)
    _write(space, address, bytes(range(100)))
    assert _read(space, address, 100) == bytes(range(100))
    _write(space, address + 10, b"\xff" * 5)
    assert _read(space, address + 9, 7) == b"\x09" + b"\xff" * 5 + b"\x0f"


def test_fresh_memory_is_poisoned(space: AddressSpace) -> None:
    assert _read(space, space.allocate(4), 4) == b"\xcd" * 4


def test_overlapping_move(space: AddressSpace) -> None:
    address = space.allocate(10)
    _write(space, address, bytes(range(10)))
    space.move(address + 2, address, 8)
    assert _read(space, address, 10) == bytes([0, 1, 0, 1, 2, 3, 4, 5, 6, 7])


def test_addresses_are_aligned_apart_and_never_reused(space: AddressSpace) -> None:
    first = space.allocate(1)
    space.free(first)
    second, third = space.allocate(ALIGNMENT), space.allocate(1)
    assert {a % ALIGNMENT for a in (first, second, third)} == {0}
    assert first < second < third
    assert third - (second + ALIGNMENT) >= ALIGNMENT


def test_no_bytes_have_address_zero(space: AddressSpace) -> None:
    assert space.allocate(0) == 0
    assert space.live_count == 0


@pytest.mark.parametrize(("offset", "nbytes"), [(0, 101), (100, 1), (-1, 1), (99, 2)])
def test_access_beyond_an_allocation(space: AddressSpace, offset: int, nbytes: int) -> None:
    address = space.allocate(100)
    with pytest.raises(DriverError, match="not allocated") as caught:
        _read(space, address + offset, nbytes)
    assert caught.value.name == "CUDA_ERROR_ILLEGAL_ADDRESS"


def test_use_after_free_says_so(space: AddressSpace) -> None:
    address = space.allocate(64)
    space.free(address)
    with pytest.raises(DriverError, match="byte 8 of 64 bytes that were freed"):
        _write(space, address + 8, b"x")


def test_double_free_says_so(space: AddressSpace) -> None:
    address = space.allocate(64)
    space.free(address)
    with pytest.raises(DriverError, match="freed") as caught:
        space.free(address)
    assert caught.value.name == "CUDA_ERROR_INVALID_VALUE"


def test_free_inside_an_allocation(space: AddressSpace) -> None:
    address = space.allocate(64)
    with pytest.raises(DriverError, match="byte 4 of an allocation of 64 bytes"):
        space.free(address + 4)
    assert space.live_bytes == 64


def test_a_host_address_is_refused(space: AddressSpace) -> None:
    array = np.zeros(4)
    with pytest.raises(DriverError, match="belongs to no allocation of this device"):
        space.check(array.ctypes.data, array.nbytes, "launch")


def test_out_of_memory_leaves_the_rest_usable() -> None:
    small = AddressSpace(SMALL_OLD_CARD)
    kept = small.allocate(2**30)
    with pytest.raises(DriverError, match=f"{2**30} of {2**31} bytes are free") as caught:
        small.allocate(2**30 + 1)
    assert caught.value.name == "CUDA_ERROR_OUT_OF_MEMORY"
    small.free(kept)
    assert small.allocate(2**31) != 0


def test_what_a_pool_keeps_is_not_free() -> None:
    small = AddressSpace(SMALL_OLD_CARD)
    small.free(small.allocate(2**30), keep=True)
    assert small.live_count == 0
    assert small.free_bytes() == 2**30
    with pytest.raises(OutOfMemoryError, match=f"{2**30} of {2**31} bytes are free"):
        small.allocate(2**30 + 1)
    again = small.allocate(2**30 + 1, from_reserve=2**30)
    assert small.free_bytes() == 2**30 - 1
    small.free(again, keep=True)
    small.give_back(2**30 + 1)
    assert small.free_bytes() == 2**31


def test_a_finalizer_may_allocate_and_free_in_the_middle_of_a_call(space: AddressSpace) -> None:
    with space._lock:
        space.free(space.allocate(8))
    assert space.live_count == 0
