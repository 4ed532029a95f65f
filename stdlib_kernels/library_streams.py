"""The stream of a call with CUDA arrays of torch or CuPy: that in which their library works now.

A launch takes that stream for such arguments, so it is in order with what the library does before
and after it. A call of this library is a row of launches with device arrays over the same memory.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

import kerneldsl as kd

__all__ = ["stream_of_library"]

#: Handles of the legacy default stream.
_DEFAULT_STREAMS = (0, 1)
_NO_BLOCK: AbstractContextManager[Any] = nullcontext()


def stream_of_library(values: Iterable[Any]) -> AbstractContextManager[Any]:
    """Return a block in the stream in which the library of a CUDA array among values works now.

    The block does nothing for the default stream, and inside of a block of one of kerneldsl's.
    """
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is None and cupy is None:
        return _NO_BLOCK
    kinds = getattr(torch, "Tensor", ()), getattr(cupy, "ndarray", ())
    for value in values:
        if isinstance(value, tuple | list):
            block = stream_of_library(value)
            if block is not _NO_BLOCK:
                return block
        elif isinstance(value, kinds[0]) and value.is_cuda:
            stream: Any = torch.cuda.current_stream(value.device.index)  # type: ignore[union-attr]
            return _block(stream, stream.cuda_stream, value.device.index)
        elif isinstance(value, kinds[1]) and not isinstance(value, np.ndarray):
            stream = cupy.cuda.get_current_stream()  # type: ignore[union-attr]
            return _block(stream, stream.ptr, value.data.device_id)
    return _NO_BLOCK


def _block(stream: Any, handle: int, index: int) -> AbstractContextManager[Any]:
    if handle in _DEFAULT_STREAMS:
        return _NO_BLOCK
    device = f"cuda:{index}"
    if kd.current_stream(device) is not kd.default_stream(device):
        return _NO_BLOCK
    return kd.Stream.from_foreign(stream, device)
