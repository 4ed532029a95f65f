"""Whatever stands for a CUDA stream comes down to a handle."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from targets.cuda.device.streams import stream_handle


class _Protocol:
    def __init__(self, version: int, handle: int) -> None:
        self._pair = version, handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return self._pair


class _ProtocolAsProperty:
    __cuda_stream__ = (0, 77)


def _object(**fields: Any) -> Any:
    return type("Stream", (), fields)()


@pytest.mark.parametrize(
    ("stream", "handle"),
    [
        (None, 1),
        (0, 1),
        (2, 2),
        (0x7F00, 0x7F00),
        (_Protocol(0, 42), 42),
        (_ProtocolAsProperty(), 77),
        (_object(handle=ctypes.c_void_p(9)), 9),
        (_object(handle=ctypes.c_void_p(None)), 1),
        (_object(cuda_stream=0), 1),
        (_Protocol(0, 0), 1),
        (_object(cuda_stream=11), 11),
        (_object(ptr=12), 12),
    ],
)
def test_every_spelling(stream: Any, handle: int) -> None:
    assert stream_handle(stream) == handle


@pytest.mark.parametrize("stream", ["0", 1.5, True, object(), _object(handle="x")])
def test_what_is_no_stream(stream: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="is not a CUDA stream"):
        stream_handle(stream)


@pytest.mark.parametrize("told", [5, (0,), (0, "x"), None])
def test_a_protocol_that_gives_something_else(told: Any) -> None:
    with pytest.raises(ArgumentTypeError, match=r"returns .*two ints"):
        stream_handle(_object(__cuda_stream__=lambda self: told))


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        (-1, "negative"),
        (2**64, "beyond 64 bits"),
        (_Protocol(0, -5), "negative"),
        (_Protocol(1, 0), "version 1"),
    ],
)
def test_wrong_numbers(stream: Any, words: str) -> None:
    with pytest.raises(ArgumentValueError, match=words):
        stream_handle(stream)
