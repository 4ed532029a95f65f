"""A C function in the place of ``__getitem__``: for a class and those below it, and back again."""

from __future__ import annotations

import ctypes
import inspect
from typing import Any

import pytest

from kerneldsl.launch.native import layout
from kerneldsl.launch.native.layout import UnknownLayout, check_layout, put_subscript, subscript_of


@pytest.fixture(autouse=True)
def known() -> None:
    try:
        check_layout()
    except UnknownLayout as error:
        pytest.skip(f"not known here: {error}")


@ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.py_object)
def answer(self: Any, key: Any) -> Any:
    return (type(self).__name__, key)


ADDRESS = ctypes.cast(answer, ctypes.c_void_p).value or 0
DOCUMENT = b"__getitem__($self, key, /)\n--\n\nWhat is asked for."


def classes() -> tuple[type, type, type]:
    class Above:
        def __getitem__(self, key: Any) -> Any:
            return "Python"

    class Below(Above):
        pass

    class WithItsOwn(Above):
        def __getitem__(self, key: Any) -> Any:
            return "its own"

    return Above, Below, WithItsOwn


def test_the_class_and_those_below_answer_with_it() -> None:
    above, below, with_its_own = classes()
    put_subscript(above, ADDRESS, DOCUMENT)
    assert subscript_of(above) == subscript_of(below) == ADDRESS
    assert above()[1, 2] == ("Above", (1, 2))
    assert below()["key"] == ("Below", "key")
    assert above().__getitem__(3) == ("Above", 3)
    assert above.__getitem__(below(), 4) == ("Below", 4)
    assert with_its_own()[5] == "its own"

    class Later(below):  # type: ignore[misc,valid-type]
        pass

    assert subscript_of(Later) == ADDRESS
    assert Later()[6] == ("Later", 6)


def test_it_keeps_its_signature_and_its_text() -> None:
    above, _, _ = classes()
    put_subscript(above, ADDRESS, DOCUMENT)
    found = above.__dict__["__getitem__"]
    assert found.__doc__ == "What is asked for."
    assert list(inspect.signature(found).parameters) == ["self", "key"]
    assert "What is asked for." not in (dict.__getitem__.__doc__ or "")


def test_what_cpython_does_not_take_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    above, below, _ = classes()
    monkeypatch.setattr(layout, "subscript_of", lambda owner: 0)
    with pytest.raises(UnknownLayout):
        put_subscript(above, ADDRESS, DOCUMENT)
    assert above()[1] == below()[1] == "Python"
    real = subscript_of
    answers = iter([real(type(type.__dict__)), 0])
    monkeypatch.setattr(layout, "subscript_of", lambda owner: next(answers))
    with pytest.raises(UnknownLayout):
        put_subscript(above, ADDRESS, DOCUMENT)
    assert above()[1] == below()[1] == "Python"
