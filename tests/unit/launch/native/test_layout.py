"""Where CPython and NumPy keep things, tried out; what is not known is refused."""

from __future__ import annotations

import ctypes
import sys

import pytest

from kerneldsl.launch.native import layout
from kerneldsl.launch.native.layout import (
    UnknownLayout,
    check_layout,
    function_address,
    slot_offset,
)


@pytest.fixture(autouse=True)
def known():
    try:
        check_layout()
    except UnknownLayout as error:
        pytest.skip(f"not known here: {error}")


@pytest.mark.parametrize(
    "name",
    [
        "TYPE",
        "HEAD",
        "TUPLE_SIZE",
        "TUPLE_ITEMS",
        "BYTES_DATA",
        "CELL_VALUE",
        "CDATA_POINTER",
        "ARRAY_DATA",
        "ARRAY_NDIM",
        "ARRAY_DIMENSIONS",
        "ARRAY_STRIDES",
        "ARRAY_DESCR",
        "ARRAY_FLAGS",
    ],
)
def test_every_offset_is_tried(monkeypatch, name):
    """An offset that is off by a little, so that what is read is the object's own memory."""
    monkeypatch.setattr(layout, name, getattr(layout, name) + (8 if name != "HEAD" else -8))
    with pytest.raises(UnknownLayout):
        check_layout()


def test_where_a_dictionary_keeps_its_version_is_tried(monkeypatch):
    is_known = sys.version_info[:2] in ((3, 11), (3, 12))
    assert (layout.dict_version_offset() is not None) == is_known
    # The number of entries, the address of its keys, and that of its values.
    for other in (16, 32, 40):
        monkeypatch.setattr(layout, "_DICT_VERSION", other)
        assert layout.dict_version_offset() is None
    monkeypatch.undo()
    monkeypatch.setattr(sys, "version_info", (3, 13, 0, "final", 0))
    assert layout.dict_version_offset() is None


def test_other_interpreters_are_refused(monkeypatch):
    for patch, words in (
        ((sys, "version_info", (3, 99, 0, "final", 0)), "3.99"),
        ((sys, "platform", "win32"), "win32"),
        ((sys, "byteorder", "big"), "byte order"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(*patch)
            with pytest.raises(UnknownLayout, match=words):
                check_layout()


class OtherMain:
    """The interpreter's C functions, by which this is not the main interpreter."""

    def __init__(self, api):
        self._api = api

    def __getattr__(self, name):
        if name != "PyInterpreterState_Main":
            return getattr(self._api, name)
        return ctypes.PYFUNCTYPE(ctypes.c_void_p)(lambda: 1)


def test_sub_interpreters_are_refused(monkeypatch):
    monkeypatch.setattr(ctypes, "pythonapi", OtherMain(ctypes.pythonapi))
    with pytest.raises(UnknownLayout, match="sub-interpreter"):
        check_layout()


def test_a_slot_is_found():
    class Slotted:
        __slots__ = ("first", "second")

    trial = Slotted()
    offsets = [slot_offset(Slotted, name, trial, object()) for name in ("first", "second")]
    assert offsets[1] - offsets[0] == 8

    class Plain:
        second = property(lambda self: 1)

    with pytest.raises(UnknownLayout, match="not a slot"):
        slot_offset(Plain, "second", Plain(), 1)


def test_an_unknown_function_of_the_interpreter():
    assert function_address("PyLong_AsLongLong")
    with pytest.raises(UnknownLayout, match="PyNothing"):
        function_address("PyNothing")
