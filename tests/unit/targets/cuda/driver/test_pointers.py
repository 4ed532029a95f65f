"""The device of an address: asked of the driver's own function, in some context."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

from kerneldsl.errors import DriverError
from targets.cuda.driver.driver import Driver
from targets.cuda.target import device_of_pointer
from tests.support.driver_bindings import FakeBindings

ORDINAL = 9
ADDRESS = 0xABC00


class NativeAnswers(FakeBindings):
    """Answers through native code, and only where some context is current, as the driver does.

    The call of the bindings answers 0 for every device, as NVIDIA's does.
    """

    CUpointer_attribute = SimpleNamespace(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL=ORDINAL)
    in_use: tuple[int, ...] = ()

    def __init__(self) -> None:
        super().__init__()
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64)
        self._native = kind(self._answer)

    def _answer(self, data: int, attribute: int, pointer: int) -> int:
        if not self.current:
            return 201  # CUDA_ERROR_INVALID_CONTEXT
        if attribute != ORDINAL or pointer != ADDRESS:
            return 1  # CUDA_ERROR_INVALID_VALUE
        ctypes.c_int.from_address(data).value = 1
        return 0

    def do_cuGetProcAddress(self, name: bytes, version: int, flags: int) -> tuple[Any, ...]:
        assert name == b"cuPointerGetAttribute"
        return (ctypes.cast(self._native, ctypes.c_void_p).value, 0)

    def do_cuPointerGetAttribute(self, attribute: int, pointer: int) -> tuple[Any, ...]:
        return (0,)

    def do_cuDevicePrimaryCtxGetState(self, device: int) -> tuple[Any, ...]:
        return (0, int(device in self.in_use))


@pytest.mark.parametrize(
    ("ours", "in_use", "taken"),
    [((1,), (0,), 0x1001), ((), (1,), 0x1001), ((), (0, 1), 0x1000), ((), (), 0x1000)],
    ids=["a context of ours", "another library's", "the first of two", "none yet"],
)
def test_an_address_has_a_device_in_a_thread_without_a_context(
    ours: tuple[int, ...], in_use: tuple[int, ...], taken: int
) -> None:
    api = NativeAnswers()
    driver = Driver(api)
    for index in ours:
        driver.synchronize(index)
    api.in_use, api.current = in_use, 0
    api.calls.clear()
    assert device_of_pointer(driver, ADDRESS) == 1
    assert next(call for call in api.calls if call[0] == "cuCtxSetCurrent")[1] == taken
    retained = [call[1] for call in api.calls if call[0] == "cuDevicePrimaryCtxRetain"]
    assert retained == ([] if ours else [taken - 0x1000])
    # With nothing current, other libraries take the first device; its context may stay.
    assert api.current == (0 if taken == 0x1001 else taken)


def test_an_address_has_a_device_in_whichever_context_is_current() -> None:
    api = NativeAnswers()
    driver = Driver(api)
    api.current = 0xF00
    assert device_of_pointer(driver, ADDRESS) == 1
    assert "cuCtxSetCurrent" not in api.names()
    assert api.current == 0xF00


def test_an_address_that_is_none_of_the_drivers() -> None:
    api = NativeAnswers()
    driver = Driver(api)
    api.current = 0xF00
    with pytest.raises(DriverError, match="find the device of address 0x10") as raised:
        device_of_pointer(driver, 0x10)
    assert raised.value.name == "CUDA_ERROR_INVALID_VALUE"
