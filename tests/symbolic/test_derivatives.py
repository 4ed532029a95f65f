"""Derivatives of kernels and functions, against finite differences and SymPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.errors import ArgumentError
from kerneldsl.symbolic.element_kernels import element_function
from tests.support.extent import examples

X, A = sympy.symbols("x a", real=True)
#: Results of one kernel: a program of several expressions is compiled in the time of one.
_TOGETHER = 10


def _functions(inner):
    return st.one_of(
        st.builds(sympy.sin, inner),
        st.builds(sympy.cos, inner),
        st.builds(sympy.tanh, inner),
        st.builds(lambda e: sympy.exp(-(e**2)), inner),
        st.builds(lambda e: sympy.sqrt(1 + e**2), inner),
        st.builds(lambda e: sympy.log(2 + e**2), inner),
        st.builds(sympy.atan, inner),
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, b: a * b, inner, inner),
        st.builds(lambda a, b: a / (1 + b**2), inner, inner),
        st.builds(lambda e: e**3, inner),
        st.builds(lambda a, b: sympy.Piecewise((a, 7 * X > 1), (b, True)), inner, inner),
        st.builds(lambda e: sympy.Abs(e + 9), inner),
    )  # fmt: skip


_leaves = st.sampled_from([X, A, sympy.Integer(2), sympy.Rational(1, 3), sympy.Float(0.7)])
_expressions = st.recursive(_leaves, _functions, max_leaves=6)


@pytest.mark.full
@settings(max_examples=examples(20), deadline=None)
@given(st.lists(_expressions, min_size=_TOGETHER, max_size=_TOGETHER))
def test_derivatives_of_random_expressions(expressions):
    # 200 in a full run: each by SymPy alone, and through the text of a function and back.
    rng = np.random.default_rng(len(str(expressions)))
    x, a = rng.uniform(-2, 2, 40), 0.8
    x = x[np.abs(x - 1 / 7) > 1e-3]
    formulas = {f"r{n}": each for n, each in enumerate(expressions)}
    with kd.use("cpu"):
        by_kernel = None
        if any(each.has(X) for each in expressions):
            made = kd.derivative(kd.from_expression(formulas), "x")
            given = {k: v for k, v in (("x", x), ("a", a)) if k in made.system.inputs}
            by_kernel = made(**given)
        for n, expression in enumerate(expressions):
            wanted = _evaluated(expression.diff(X), x, a)
            difference, nearer = (_difference(expression, x, a, step) for step in (1e-6, 5e-7))
            scale = _scale(wanted)
            # Not so across a bend, or where the expression turns faster than in a step.
            is_slope = np.abs(difference - nearer) <= 1e-5 * scale
            np.testing.assert_allclose(
                wanted[is_slope], difference[is_slope], rtol=1e-4, atol=1e-4 * scale
            )
            slope = kd.derivative(_function_of(expression), "x")
            got = [slope(each, a) for each in x]
            bounds = {"rtol": 1e-7, "atol": 1e-9 * scale}
            np.testing.assert_allclose(got, wanted, **bounds, err_msg=str(expression))
            if by_kernel is not None:
                np.testing.assert_allclose(by_kernel[n], wanted, **bounds, err_msg=str(expression))


def _scale(values):
    return max(1.0, float(np.max(np.abs(values))))


def _difference(expression, x, a, step):
    """Return central differences of an expression."""
    around = (_evaluated(expression, x + s * step, a) for s in (1, -1))
    return np.subtract(*around) / (2 * step)


def _evaluated(expression, x, a):
    found = sympy.lambdify((X, A), expression, ["scipy", "numpy"])(x, a)
    return np.broadcast_to(np.asarray(found, dtype=float), x.shape)


def _function_of(expression):
    """Return a function of x and a with this text."""
    from kerneldsl.symbolic.element_kernels import function_text
    from kerneldsl.symbolic.sources import NAMESPACE
    from kerneldsl.utilities.written_functions import written_function

    text = function_text("expression", {X: "x", A: "a"}, [expression], casts=False)
    return written_function("expression", text, NAMESPACE, "tests")


@kd.func
def softplus(t):
    return math.log(1.0 + math.exp(t))


@kd.kernel
def layered(x, w, b, out, other):
    i = kd.grid(1)
    if i >= out.size:
        return
    t = w * x[i] + b
    total = 0.0
    for k in range(3):
        total += (k + 1) * t**k
    if t > 0.5:
        y = softplus(t)
    else:
        y = t * t
    out[i] = y + total
    other[i] = max(t, 0.25) * abs(x[i])


def layered_numpy(x, w, b):
    t = w * x + b
    y = np.where(t > 0.5, np.log(1 + np.exp(t)), t * t)
    return y + 1 + 2 * t + 3 * t * t, np.maximum(t, 0.25) * np.abs(x)


@pytest.mark.parametrize(
    "wrt",
    ["x", pytest.param("w", marks=pytest.mark.full), pytest.param("b", marks=pytest.mark.full)],
)
def test_a_kernel_against_finite_differences(computing, rng, wrt):
    x = rng.uniform(-2, 2, 101)
    # A difference across a bend or a step is no slope.
    bends = np.array([0, (0.25 - 0.1) / 0.7, (0.5 - 0.1) / 0.7])
    x = x[np.abs(x[:, None] - bends).min(axis=1) > 1e-4]
    slope = kd.derivative(layered, wrt)
    out, other = np.full(x.size, np.nan), np.full(x.size, np.nan)
    slope.forall(x.size)(x, 0.7, 0.1, out, other)
    values = {"x": x, "w": 0.7, "b": 0.1}
    high, low = ({**values, wrt: values[wrt] + s} for s in (1e-6, -1e-6))
    for got, up, down in zip(
        (out, other), layered_numpy(**high), layered_numpy(**low), strict=True
    ):
        np.testing.assert_allclose(got, (up - down) / 2e-6, rtol=1e-5, atol=1e-6)


@pytest.mark.full
def test_two_axes_branches_and_float32(computing, rng):
    @kd.kernel
    def edge(u, v, rate, out):
        i, j = kd.grid(2)
        n, m = out.shape
        if i < n and j < m:
            if 0 < i < n - 1:
                out[i, j] = u[i, j] + rate * (u[i - 1, j] * v[i, j] ** 2)
            else:
                out[i, j] = v[i, j]

    slope = kd.derivative(edge, "v")
    assert "0.5" not in slope.source
    u, v = (rng.normal(size=(5, 7)).astype("float32") for _ in range(2))
    out = np.full((5, 7), np.nan, "float32")
    slope.forall(5, 7)(u, v, 0.3, out)
    wanted = np.ones((5, 7))
    wanted[1:-1] = 0.6 * u[:-2] * v[1:-1]
    np.testing.assert_allclose(out, wanted, rtol=1e-5)
    assert "f64" not in slope.ptx(
        "float32[:, ::1], float32[:, ::1], float32, float32[:, ::1]", forall=2, arch="sm_90"
    )


def test_a_second_derivative_and_a_mixed_one():
    def energy(x, y):
        return x**3 * y + math.sin(y)

    assert kd.derivative(energy, ("x", "x"))(2.0, 5.0) == 60.0
    assert kd.derivative(energy, ("x", "y"))(2.0, 5.0) == 12.0
    assert kd.derivative(lambda x: (x * x, 1 / x), "x")(2.0) == (4.0, -0.25)


def test_a_choice_of_two_parameters():
    def chosen(x, a):
        return x if x > 0.5 else a

    assert [kd.derivative(chosen, "x")(x, 3.0) for x in (1.0, 0.0)] == [1, 0]


def power(x, a):
    return x**a


def root_of_product(x, a):
    return (x * a) ** 1.5


def of_modulus(x, a):
    return abs(x) ** a


def distance(x, a):
    return math.hypot(x, a)


def near_one(x, a):
    return a * math.expm1(x) + a * math.log1p(x)


@pytest.mark.parametrize(
    ("function", "wrt", "x", "a", "wanted"),
    [
        *((power, "x", x, 2.0, 2 * x) for x in (0.0, 1e-200, 1e200)),
        *((power, "x", x, 1.0, 1.0) for x in (0.0, 1e-200, 1e200)),
        *((power, "x", x, 0.0, 0.0) for x in (0.0, 1e-200, 1e200)),
        (power, "x", 0.0, 0.5, math.inf),
        (power, "x", -2.0, 3.0, 12.0),
        (power, "a", 0.0, 2.0, 0.0),
        (power, "a", 1.0, 2.0, 0.0),
        (power, "a", math.e, 0.0, 1.0),
        (power, ("x", "x"), 0.0, 2.0, 2.0),
        (power, ("x", "x"), 0.0, 1.0, 0.0),
        (power, ("x", "a"), 2.0, 0.0, 0.5),
        (root_of_product, "x", 0.0, 2.0, 0.0),
        (root_of_product, "x", 1e200, 1e-200, 1.5e-200),
        (of_modulus, "x", 0.0, 2.0, 0.0),
        (of_modulus, "x", -1e200, 2.0, -2e200),
        (of_modulus, "x", -2.0, 1.0, -1.0),
        (distance, "x", 1e200, 1e200, math.sqrt(0.5)),
        (distance, "x", -1e-200, 1e-200, -math.sqrt(0.5)),
        (near_one, "a", 1e-20, 1.0, 2e-20),
        (near_one, "x", 0.0, 1.0, 2.0),
    ],
)
def test_values_at_zero_and_at_the_ends_of_the_floats(function, wrt, x, a, wanted):
    with np.errstate(divide="ignore"):
        got = kd.derivative(function, wrt)(np.float64(x), a)
    np.testing.assert_allclose(got, wanted, rtol=1e-14)


def test_a_power_of_arrays_on_each_target(computing):
    @kd.kernel
    def powers(x, a, out):
        i = kd.grid(1)
        if i < out.size:
            out[i] = x[i] ** a[i]

    x = np.repeat([0.0, 1e-200, 2.0, 1e200], 3)
    a = np.tile([0.0, 1.0, 2.0], 4)
    out = np.full(12, np.nan)
    kd.derivative(powers, "x").forall(12)(x, a, out)
    np.testing.assert_allclose(out, np.choose(a.astype(int), [0 * x, 1, 2 * x]), rtol=1e-14)


def test_a_third_root_of_negative_numbers(computing):
    @kd.kernel
    def third_root(x, out):
        i = kd.grid(1)
        if i < out.size:
            out[i] = kd.cbrt(x[i])

    out = np.full(3, np.nan)
    kd.derivative(third_root, "x").forall(3)(np.array([-8.0, 0.0, 1e-300]), out)
    np.testing.assert_allclose(out, [1 / 12, math.inf, 1e200 / 3], rtol=1e-14)


def test_the_slope_of_sinc():
    x = np.array([-2.0, -1.0, -1e-3, -1e-9, 0.0, 1e-300, 1e-5, 0.5, 0.999, 1.0, 20.0])
    slope = kd.derivative(kd.from_expression(sympy.sinc(X)), "x")
    t = sympy.Symbol("t")
    exact = sympy.cos(t) / t - sympy.sin(t) / t**2
    wanted = [
        float(exact.evalf(30, {t: sympy.Float(each, 800)}, maxn=2000)) if each else 0.0
        for each in x
    ]
    with kd.use("cpu"):
        np.testing.assert_allclose(slope(x), wanted, rtol=2e-15)


def test_expressions_are_differentiated_as_they_are():
    i = sympy.Symbol("i", integer=True)
    u, v, out = map(sympy.IndexedBase, ("u", "v", "out"))
    made = kd.from_expression(
        sympy.Eq(out[i], A * u[i - 1] ** 2 * v[i]), boundary="wrap", name="flow"
    )
    by_a = kd.derivative(made, "a")
    assert by_a.source.startswith("def flow_by_a(u, v, a, out, *, dtype):")
    assert kd.derivative(made, A).source == by_a.source
    with kd.use("cpu"):
        got = kd.derivative(made, "v")(np.array([1.0, 2.0, 3.0]), np.ones(3), 2.0)
    np.testing.assert_allclose(got, [18.0, 2.0, 8.0])


def test_a_kernel_is_stored_in_place():
    @kd.kernel
    def square(x, out):
        i = kd.grid(1)
        x[i] *= x[i]
        out[i] = x[i] * x[i]

    with kd.use("cpu"):
        x, out = np.array([1.0, 2.0]), np.empty(2)
        kd.derivative(square, "x").forall(2)(x, out)
    np.testing.assert_array_equal(x, [2.0, 4.0])
    np.testing.assert_array_equal(out, [4.0, 32.0])


def test_the_same_text_as_by_hand():
    slope = kd.derivative(element_function(sympy.sin(X) * A, None), "x")
    assert slope.function.__name__ == "expression_by_x"
    assert slope(3.0, 0.0) == 3.0


def barrier(x, out):
    i = kd.grid(1)
    kd.syncthreads()
    out[i] = x[i]


def neighbours(x, out):
    i = kd.grid(1)
    out[i] = x[i + 1] - x[i]


def rounded(x, out):
    i = kd.grid(1)
    out[i] = x[i] // 2


def endless(x, out):
    i = kd.grid(1)
    while x[i] > 0:
        out[i] = x[i]


def open_range(x, n, out):
    i = kd.grid(1)
    for _ in range(n):
        out[i] = x[i]


def row(x, out):
    i = kd.grid(1)
    out[i, :] = x[i, :]


def gamma(x, out):
    i = kd.grid(1)
    out[i] = math.gamma(x[i])


def unknown(x, out):
    i = kd.grid(1)
    out[i] = round(x[i])


def itself(x, out):
    i = kd.grid(1)
    v = x[i]
    out[i] = v if v == v else 0.0


@pytest.mark.parametrize(
    ("function", "what", "line"),
    [
        (barrier, "kd.syncthreads is more than one element", "kd.syncthreads()"),
        (neighbours, "x is read at more than one element", "x[i + 1] - x[i]"),
        (rounded, "rounds what depends on x", "x[i] // 2"),
        (endless, "while", "while x[i] > 0"),
        (open_range, "no fixed number of turns", "range(n)"),
        (row, "not a single element", "x[i, :]"),
        (gamma, "polygamma", "math.gamma(x[i])"),
        (unknown, "has no derivative here", "round(x[i])"),
        (itself, "compares a number with itself", "v == v"),
    ],
)
def test_refusals_show_the_line(function, what, line):
    with pytest.raises(kd.UnsupportedConstructError, match=what) as caught:
        kd.derivative(kd.kernel(function), "x")
    assert line in caught.value.where.line
    assert caught.value.limit
    assert caught.value.remedy


def test_other_refusals():
    with pytest.raises(ArgumentError, match="has no parameter 'z'"):
        kd.derivative(kd.kernel(gamma), "z")
    with pytest.raises(ArgumentError, match="wrt is 3"):
        kd.derivative(kd.kernel(gamma), 3)
    with pytest.raises(ArgumentError, match="a str cannot be differentiated"):
        kd.derivative("x", "x")
    u = sympy.IndexedBase("u")
    i = sympy.Symbol("i", integer=True)
    made = kd.from_expression(u[i] + u[i - 1], boundary="wrap")
    with pytest.raises(ArgumentError, match=r"u is read at u\[i - 1\], u\[i\]"):
        kd.derivative(made, "u")


@kd.kernel
def returns_from_two_branches(x, out):
    i = kd.grid(1)
    v = x[i]
    if v > 0:
        if v > 1:
            out[i] = v * 3.0
            return
        v = v * 5.0
    out[i] = v * v


@kd.kernel
def stores_unless_it_returned(x, out):
    i = kd.grid(1)
    v = x[i]
    if v > 0:
        if v > 1:
            return
    elif v < -2:
        if v < -4:
            out[i] = 7 * v
        if not v > -3:
            return
    out[i] = v * v
    if not v > -1:
        out[i] = v * v * v


@kd.kernel
def returns_in_a_loop(x, out):
    i = kd.grid(1)
    v = x[i]
    for _ in range(3):
        if v > 1:
            if v > 2:
                out[i] = v
                return
            v = v * 1.5
        v = v + 0.25
    out[i] = v * v


@pytest.mark.parametrize(
    "kernel", [returns_from_two_branches, stores_unless_it_returned, returns_in_a_loop]
)
def test_returns_in_branches_of_branches(kernel):
    x = np.array([-5.1, -3.5, -2.5, -1.5, -0.5, 0.4, 0.8, 1.2, 1.7, 3.0, math.nan])
    untouched, step = -99.0, 1e-6
    found, above, below = np.full((3, x.size), untouched)
    with kd.use("cpu"):
        kd.derivative(kernel, "x").forall(x.size)(x, found)
        kernel.forall(x.size)(x + step, above)
        kernel.forall(x.size)(x - step, below)
    expected = np.where(above == untouched, untouched, (above - below) / (2 * step))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
