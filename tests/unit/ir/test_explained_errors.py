"""Errors of a kernel in the words of this project."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import config
from numba.core import errors

import kerneldsl as kd
from kerneldsl.errors import CompileError, KernelError, KernelTypingError, SourceLocation
from kerneldsl.frontend.normalize import make_unit
from kerneldsl.ir.explained_errors import translate
from kerneldsl.language.kinds import ArrayKind, Kind, ScalarKind
from kerneldsl.placement.registry import get_target

VECTOR = ArrayKind("float32", 1, "C")
N = ScalarKind("int64")


def failure(function: Any, *kinds: Kind) -> KernelError:
    with pytest.raises(KernelError) as caught:
        get_target("cpu").compiler.typed_unit(make_unit(function), kinds)
    return caught.value


def unknown_attribute(x):
    x[0] = x.foo


def unknown_function(x):
    x[0] = np.fft.fft(x[0])


def float_index(x, n):
    x[n / 2] = 1.0


def indexed_number(x, n):
    x[0] = 2.0 * n[1]


def indexed_number_beside_an_array(x, n):
    x[0] = x[1] + n[1]


def indexed_constant(x):
    three = 3
    x[0] = three[0]


def attribute_of_an_array(x):
    x.shape = 3


def attribute_of_a_number(x, n):
    n.real = 3


def beyond_a_tuple(x):
    pair = (1, 2)
    x[0] = pair[2]


def mixed_tuple_beside_an_array(x):
    for a, b in zip((1.5, 2), x):  # noqa: B905
        x[0] = a * b


def too_many_indices(x):
    x[0, 1] = 3.0


def two_types(x, n):
    if n > 0:
        y = 1
    else:
        y = x
    x[0] = y[0]


def too_many_arguments(x):
    x[0] = np.sqrt(x[0], 1, 2)


def text_stored(x):
    x[0] = "a"


def used_before(x):
    x[0] = z  # noqa: F821
    z = 1.0  # noqa: F841


def length_of_scalar(x):
    x[0] = len(x[0])


def sorted_in_place(x):
    x.sort()


def sorted_indices(x):
    x[0] = np.argsort(x)[0]


def printed_array(x):
    print(x)


def converted_array(x):
    x[0] = x.astype(float)[0]


@pytest.mark.parametrize(
    ("function", "remedy"),
    [
        (sorted_in_place, "kd.block.sort(x)"),
        (sorted_indices, "kd.block.sort(x)"),
        (printed_array, "single elements"),
        (converted_array, "np.float32(x[i])"),
    ],
)
def test_remedies_of_functions_of_arrays(function: Any, remedy: str) -> None:
    error = failure(function, VECTOR)
    assert isinstance(error, KernelTypingError)
    assert remedy in str(error.remedy)


@pytest.mark.parametrize(
    ("function", "kinds", "what", "line", "caret"),
    [
        (unknown_attribute, (VECTOR,), "no attribute 'foo'", 1, "x.foo"),
        (unknown_function, (VECTOR,), "fft", 1, None),
        (float_index, (VECTOR, N), "indexed by a value of type float64", 1, "x[n / 2]"),
        (indexed_number, (VECTOR, N), "a number of type int64 is indexed", 1, "n[1]"),
        (indexed_number_beside_an_array, (VECTOR, N), "a number of type int64", 1, "n[1]"),
        (indexed_constant, (VECTOR,), "a number of type int64 is indexed", 2, "three[0]"),
        (attribute_of_an_array, (VECTOR,), "'shape' of float32[::1] is assigned", 1, "x.shape"),
        (attribute_of_a_number, (VECTOR, N), "'real' of int64 is assigned", 1, "n.real"),
        (beyond_a_tuple, (VECTOR,), "a tuple is indexed beyond its elements", 2, "pair[2]"),
        (mixed_tuple_beside_an_array, (VECTOR,), "a range with tuple(float64, int64)", 1, None),
        (too_many_indices, (VECTOR,), "float32[::1] is indexed with 2 indices", 1, "x[0, 1]"),
        (two_types, (VECTOR, N), "float32[::1]", 5, "y"),
        (too_many_arguments, (VECTOR,), "sqrt was given 3 arguments", 1, "np.sqrt(x[0], 1, 2)"),
        (
            text_stored,
            (VECTOR,),
            "a value of type str is stored in an element of float32[::1]",
            1,
            "x[0]",
        ),
        (used_before, (VECTOR,), "the variable z is not defined", 1, "z"),
        (length_of_scalar, (VECTOR,), "len cannot be called with (float32)", 1, "len(x[0])"),
    ],
    ids=lambda value: value.__name__ if callable(value) else None,
)
def test_common_errors(
    function: Any, kinds: tuple[Kind, ...], what: str, line: int, caret: str | None
) -> None:
    error = failure(function, *kinds)
    assert isinstance(error, KernelTypingError)
    assert what in error.what
    assert error.what.startswith(f"{function.__name__}(x: float32[::1]")
    where = error.where
    assert isinstance(where, SourceLocation)
    assert where.filename == __file__
    assert where.lineno == function.__code__.co_firstlineno + line
    if caret is not None:
        assert where.line[where.col_offset : where.end_col_offset] == caret
        assert f"`{caret}`" in error.what
    assert isinstance(error.__cause__, errors.TypingError)


def test_our_own_errors_pass_through() -> None:
    unit = make_unit(length_of_scalar)
    own = KernelTypingError("of ours")
    wrapper = RuntimeError("Numba's")
    wrapper.__cause__ = own
    assert translate(wrapper, unit, (VECTOR,), where="on a CPU") is own


TABLE = np.arange(5.0)
TABLE.flags.writeable = False


@pytest.mark.parametrize("target", ["cpu", "null"])
def test_a_captured_array_is_not_assigned_to(target):
    @kd.kernel
    def fills(out):
        i = kd.grid(1)
        TABLE[i] = out[i]

    with (
        kd.use(target),
        pytest.raises(kd.KernelTypingError, match="captured array, which is a constant"),
    ):
        fills.forall(5)(np.zeros(5))


def test_numba_that_compiles_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the message is of an attribute that plain functions lack."""
    monkeypatch.setattr(config, "DISABLE_JIT", 1)
    unit = make_unit(unknown_attribute)
    error = translate(AttributeError("get_call_template"), unit, (VECTOR,), where="on a CPU")
    assert str(error).startswith("NUMBA_DISABLE_JIT is set, so Numba compiles nothing. Unset")
    assert isinstance(error.__cause__, AttributeError)


def whole_arrays(x):
    y = x + x
    x[0] = y[0]


@pytest.mark.parametrize("found_by", [errors.TypingError, errors.LoweringError])
def test_memory_is_a_matter_of_types_wherever_numba_finds_it(found_by: type[Exception]) -> None:
    """Numba finds it when it writes code, where the process has typed such an operation before."""
    unit = make_unit(whole_arrays)
    error = translate(found_by("NRT required but not enabled"), unit, (VECTOR,), where="on a CPU")
    assert type(error) is KernelTypingError
    assert "needs memory for its result" in error.what
    other = translate(found_by("something else"), unit, (VECTOR,), where="on a CPU")
    assert type(other) is (KernelTypingError if found_by is errors.TypingError else CompileError)
