"""What cannot be a kernel is refused, by what it is, the limit and the remedy."""

from __future__ import annotations

import numpy as np
import pytest
import sympy

import kerneldsl as kd
from kerneldsl.errors import ArgumentError

A, B = sympy.symbols("a b")
IX, J, N = sympy.symbols("i j n", integer=True)
X, H = sympy.symbols("x h")
U, V, OUT = map(sympy.IndexedBase, ("u", "v", "out"))
F = sympy.Function("f")


@pytest.mark.parametrize(
    ("expressions", "options", "what", "remedy"),
    [
        (sympy.zeta(A), {}, "zeta, for which kernels have no function", "rewrite"),
        (A + sympy.I, {}, "not a real number", "imaginary part"),
        (A * sympy.zoo, {}, "holds zoo", "division by 0"),
        (
            A + sympy.nan,
            {},
            "the expression of out is nan, and reads no array",
            r"sympy.Eq(out[i], nan)",
        ),
        (
            sympy.Eq(OUT[IX], U[IX] > V[IX]),
            {},
            "the expression is the constant False",
            '{"o": u[i] > v[i]}',
        ),
        (sympy.Integral(A, A), {}, r"Integral\(a, a\) is a Integral", ".doit()"),
        ((A * sympy.sin(A)).diff(A, evaluate=False), {}, "is not evaluated", ".doit()"),
        (sympy.frac(A), {}, r"^frac\(a\) is a frac", "rewrite"),
        (sympy.factorial(A * B) + A * B, {}, r"^factorial\(a\*b\) is a factorial", "rewrite"),
        ({"o": sympy.Xor(A > 0, B > 0)}, {}, r"^\(a > 0\) \^ \(b > 0\) is a Xor", "rewrite"),
        (sympy.frac(U[IX + 1]), {"boundary": "wrap"}, r"^frac\(u\[i \+ 1\]\) is a frac", "rewrite"),
        (sympy.Symbol("if") + sympy.Symbol("if_"), {}, "if and if_ are both", "another name"),
        (A + B, {"parameters": ["a"]}, "symbol b, which is not among the parameters", "Name it"),
        (A, {"parameters": ["a", "b"]}, "parameter b is named twice, or is not", "once"),
        (U[IX + 1], {}, r"u\[i \+ 1\] is beyond the array's end", "reflect, mirror, nearest, wrap"),
        (U[IX + 1], {"boundary": "periodic"}, "boundary is 'periodic'", None),
        (U[2 * IX], {}, r"u\[2\*i\] is read at 2\*i", "left side"),
        (sympy.Eq(OUT[IX], U[IX, J]), {}, "is read at j", "left side"),
        (sympy.Eq(OUT[IX], U[-1]), {}, "is read at -1", None),
        (sympy.Eq(OUT[IX + 1], U[IX]), {}, "left side of an equation is", "right side"),
        (sympy.Eq(A**2, U[IX]), {}, r"left side of an equation is a\*\*2", "Solve"),
        ([sympy.Eq(OUT[IX], U[IX]), sympy.Eq(V[J], U[J])], {}, "results are stored at", "each"),
        ([sympy.Eq(OUT[IX], U[IX]), sympy.Eq(OUT[IX], V[IX])], {}, "results are called", None),
        (U[IX, J] + V[J, IX], {}, "read by the indices", "Write an equation"),
        (sympy.Eq(U[IX], U[IX - 1]), {"boundary": "wrap"}, "u is written, and read as", "another"),
        (sympy.Sum(U[IX], (IX, 0, N)), {}, "range of .* is not fixed", "subs"),
        (sympy.Sum(U[IX], (IX, 0, 999)), {}, "has 1000 terms", "reduce"),
        (F(X).diff(X), {}, "derivative with no scheme", "as_finite_difference"),
        (F(X + H / 2) + F(X), {}, "is read at", "steps="),
        (X * F(X), {}, "coordinate x is used as a number", "array"),
        (sympy.Symbol("a'"), {}, "cannot be a parameter of a kernel", "another name"),
        (U[IX] * sympy.Symbol("u"), {}, "u is an array and a number", "another name"),
        (sympy.Symbol("a") + U[0, 0, 0, 0, IX], {"boundary": 3}, None, None),
        ("a + b", {}, "an expression is 'a", "sympify"),
        ([], {}, "there is no expression", None),
    ],
)
def test_expressions(expressions, options, what, remedy):
    if what is None:
        with pytest.raises((ArgumentError, TypeError)):
            kd.from_expression(expressions, **options)
        return
    with pytest.raises(ArgumentError, match=what) as caught:
        kd.from_expression(expressions, **options)
    if remedy is not None:
        assert remedy in caught.value.remedy
    assert caught.value.limit or caught.value.remedy


_X = np.ones((3, 4))


@pytest.mark.parametrize(
    ("expression", "args", "named", "what"),
    [
        (A + B, (_X, np.ones(3)), {}, r"shapes a \(3, 4\), b \(3,\) cannot be broadcast"),
        (A + B, (_X,), {}, "'b' is missing"),
        (sympy.Eq(OUT[IX], IX), (_X,), {}, r"called as expression\(out=None\)"),
        (A + B, (_X, _X, _X), {}, "the call has 3 arguments"),
        (A + B, (_X,), {"a": _X, "b": _X}, "'a' is not a parameter, or is given twice"),
        (A + B, (1.0, 2), {}, "no array among a, b"),
        (A + B, (_X, _X.astype(complex)), {}, "dtype complex128"),
        (A + B, (_X, _X), {"out": np.ones(3)}, r"out has the shape \(3,\)"),
        (A + B, (_X, _X), {"out": (_X, _X)}, "out has 2 arrays"),
        (A + B, (np.ones((2, 1, 2, 2)), np.ones((1, 3, 2, 2))), {}, "are broadcast to"),
        (U[IX, J] + V[J], (_X, np.ones(3)), {}, "v has 3 elements along j, and others have 4"),
        (U[IX, J] + V[J], (_X, _X), {}, "v has the shape"),
        (U[IX, J] + V[J], (_X, 2.0), {}, "v is 2.0"),
        (U[IX] * A, (np.ones(3), np.ones(3)), {}, "a is ndarray"),
        (sympy.Eq(OUT[IX], U[IX] + V[5]), (np.ones(9), np.ones(5)), {}, r"v\[5\] is read"),
        (sympy.Eq(OUT[IX, J], U[IX]), (np.ones(3),), {}, "no array has an axis of the index j"),
    ],
)
def test_calls(expression, args, named, what):
    made = kd.from_expression(expression)
    with kd.use("cpu"), pytest.raises(ArgumentError, match=what):
        made(*args, **named)


def test_a_derivative_without_a_word_is_told_as_it_is_read():
    made = kd.from_expression(sympy.gamma(A * B) + A * B)
    with pytest.raises(ArgumentError, match=r"^polygamma\(0, a\*b\) is a polygamma"):
        kd.derivative(made, "a")


@pytest.mark.parametrize(
    "name", ["kd", "kd_x", "lambda", "dtype", "math", "max", "_", "out_", "n0"]
)
def test_any_name_of_a_symbol(name):
    symbol, index = sympy.Symbol(name), sympy.Symbol(name, integer=True)
    made = kd.from_expression(symbol * A, parameters=[name, "a"])
    x = np.arange(3.0)
    with kd.use("cpu"):
        np.testing.assert_array_equal(made(2.0, x), 2 * x)
        shifted = kd.from_expression(sympy.Eq(OUT[index], U[index + 1]), boundary="wrap")
        np.testing.assert_array_equal(shifted(x), [1, 2, 0])
        named = kd.from_expression({name: A + 1})
        np.testing.assert_array_equal(named(x), x + 1)


def test_a_stencil_is_not_computed_in_place():
    made = kd.from_expression(sympy.Eq(OUT[IX], U[IX - 1]), boundary="wrap")
    x = np.arange(5.0)
    with pytest.raises(ArgumentError, match="out shares memory with u"):
        made(x, out=x[:])


def test_sympy_is_missing(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "sympy", None)
    with pytest.raises(kd.ToolMissingError, match="SymPy is not installed") as caught:
        kd.from_expression(None)
    assert "kerneldsl[sym]" in caught.value.remedy
