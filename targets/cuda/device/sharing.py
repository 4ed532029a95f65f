"""Memory of a CUDA device that other processes of the machine open by a handle.

References
----------
CUDA Driver API, section "Memory Management": ``cuIpcGetMemHandle``, ``cuIpcOpenMemHandle`` and
``cuMemGetAddressRange``.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from kerneldsl.errors import ArgumentValueError

if TYPE_CHECKING:
    from targets.cuda.driver.driver import Driver

__all__ = ["close_memory", "export_memory", "open_memory"]

#: The bytes of a handle (``CU_IPC_HANDLE_SIZE``).
_HANDLE_BYTES = 64


def export_memory(driver: Driver, index: int, pointer: int) -> tuple[bytes, int]:
    """Return the handle of the allocation that an address is in, and the address's offset in it."""
    api, doing = driver.api, f"share {pointer:#x} on cuda:{index} with other processes"
    base, _ = driver.call_on(index, api.cuMemGetAddressRange, pointer, doing=doing)
    handle = driver.call_on(index, api.cuIpcGetMemHandle, base, doing=doing)
    return bytes(_bytes_of(handle)), pointer - int(base)


def open_memory(driver: Driver, index: int, handle: bytes) -> int:
    """Return the address at which this process has the allocation of another one."""
    if len(handle) != _HANDLE_BYTES:
        raise ArgumentValueError(
            f"a handle of memory has {len(handle)} bytes",
            value=bytes(handle),
            limit=f"A handle of a CUDA device has {_HANDLE_BYTES} (CU_IPC_HANDLE_SIZE)",
            remedy="Pass the bytes that the other process's device gave, unchanged",
        )
    api = driver.api
    given = api.CUipcMemHandle()
    _bytes_of(given)[:] = handle
    flag = api.CUipcMem_flags.CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
    doing = f"open memory of another process on cuda:{index}"
    return int(driver.call_on(index, api.cuIpcOpenMemHandle, given, flag.value, doing=doing))


def close_memory(driver: Driver, index: int, pointer: int) -> None:
    """Release an allocation of another process."""
    doing = f"close memory of another process on cuda:{index}"
    driver.call_on(index, driver.api.cuIpcCloseMemHandle, pointer, doing=doing)


def _bytes_of(handle: Any) -> Any:
    return (ctypes.c_ubyte * _HANDLE_BYTES).from_address(handle.getPtr())
