"""Errors as values: fields, messages, and the way to another process."""

from __future__ import annotations

import copy
import inspect
import pickle

import numpy as np
import pytest

from kerneldsl import errors
from kerneldsl.errors import DriverError, KernelError, KernelFault, SourceLocation, fault_class
from kerneldsl.errors.conversions import AxisError

_EXTRA = {
    AxisError: {"axis": 5, "ndim": 2},
    DriverError: {"code": 700, "name": "CUDA_ERROR_ILLEGAL_ADDRESS"},
    KernelFault: {"thread_idx": (1, 2, 3), "block_idx": (4, 5, 6)},
}
_KINDS = [
    kind
    for name in errors.__all__
    if inspect.isclass(kind := getattr(errors, name)) and issubclass(kind, KernelError)
]
_KINDS += [fault_class(IndexError), fault_class(AssertionError), fault_class(KeyError)]


def _to_another_process(error: KernelError) -> KernelError:
    return pickle.loads(pickle.dumps(error))  # noqa: S301 - what was just written


def _make(kind: type[KernelError]) -> KernelError:
    extra = next((fields for base, fields in _EXTRA.items() if issubclass(kind, base)), {})
    return kind(
        "it broke",
        where=SourceLocation("<nowhere>", 7, function="k"),
        value=(1, 2.5, "x"),
        limit="It may not",
        remedy="Do not",
        chain=("a link",),
        **extra,
    )


@pytest.mark.parametrize("kind", _KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("how", [_to_another_process, copy.copy])
def test_an_error_travels_with_all_its_fields(kind: type[KernelError], how) -> None:
    error = _make(kind)
    other = how(error)
    assert type(other) is kind
    assert other.__dict__ == error.__dict__
    assert str(other) == str(error)
    assert "It may not. Do not." in str(other)


def test_an_axis_out_of_range_is_what_numpy_raises() -> None:
    error = _make(AxisError)
    for each in (error, _to_another_process(error), copy.copy(error)):
        assert isinstance(each, np.exceptions.AxisError)
        assert isinstance(each, IndexError)
        assert isinstance(each, errors.ArgumentValueError)
        assert (each.axis, each.ndim) == (5, 2)
        assert each.args == (str(each),)
    error.add_line("said later")
    assert str(error).endswith("\n  said later")


def test_what_cannot_be_pickled_travels_as_text() -> None:
    error = KernelError("it broke", value=(lambda: None, 1))
    other = _to_another_process(error)
    assert "lambda" in other.value[0]
    assert other.value[1] == 1


def test_a_message_is_what_limit_remedy_place_and_chain() -> None:
    assert str(_make(KernelError)) == (
        "it broke. It may not. Do not.\n  at <nowhere>:7, in k\n  a link"
    )


def test_every_category_is_a_subclass() -> None:
    kinds = [kind for kind in _KINDS if issubclass(kind, DriverError)]
    categories = {kind.category for kind in kinds}
    assert len(categories) == 8
    for kind in kinds:
        assert kind.category in categories
