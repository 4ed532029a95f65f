"""Kernels of expressions as functions of arrays: values, shapes, dtypes, edges."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

import kerneldsl as kd
from kerneldsl.symbolic.shifts import MODES
from tests.support.extent import examples, full_beyond

A, B, S = sympy.symbols("a b s")
IX, J, K = sympy.symbols("i j k", integer=True)
U, V, W, OUT = map(sympy.IndexedBase, ("u", "v", "w", "out"))


@pytest.fixture
def formula():
    return kd.from_expression(sympy.sin(A) ** 2 + sympy.sin(A) * B / 3 + sympy.Max(A, B, 0))


def exact(a, b):
    return np.sin(a) ** 2 + np.sin(a) * b / 3 + np.maximum(np.maximum(a, b), 0)


@pytest.mark.parametrize(
    "shapes",
    full_beyond(
        [
            ((4, 5), (5,)),
            ((4, 1), (1, 5)),
            ((3, 4, 5), (3, 4, 5)),
            ((2, 2, 2, 3), (2, 2, 2, 3)),
            ((0, 3), (3,)),
            ((7,), ()),
        ],
        [((4, 1), (1, 5))],
    ),
)
def test_arrays_are_broadcast(formula, computing, rng, shapes):
    left, right = shapes
    a, b = rng.normal(size=left), rng.normal(size=right)
    for both in (
        (a, b),
        (kd.to_device(a), kd.to_device(b)) if right else (kd.to_device(a), float(b)),
    ):
        got = formula(*both)
        got = got.copy_to_host() if isinstance(got, kd.DeviceArray) else got
        np.testing.assert_allclose(got, exact(a, b), rtol=1e-12)
        assert got.shape == np.broadcast_shapes(left, right)


@pytest.mark.full
def test_views_of_any_layout(formula, computing, rng):
    a, b = rng.normal(size=(9, 8))[::2, ::-1], rng.normal(size=(8, 5)).T
    out = np.full((8, 5), np.nan).T
    assert formula(a, b, out=out) is out
    np.testing.assert_allclose(out, exact(a, b), rtol=1e-12)


_DTYPES = [
    (A / 2 + B, ("float32", "float32"), "float32"),
    (A / 2 + B, ("float32", "float64"), "float64"),
    (A / 2 + B, ("float16", "float16"), "float16"),
    (2 * A + B, ("int32", "int16"), "int32"),
    (A / 2 + B, ("int32", "int16"), "float64"),
    (A**2 - B, ("uint64", "uint64"), "uint64"),
    (2 * A + B, ("bool", "bool"), "int64"),
    (A > B, ("float32", "float32"), "bool"),
    (A, ("float32",), "float32"),
]


@pytest.mark.parametrize("case", full_beyond([pytest.param(each) for each in _DTYPES], []))
def test_results_have_numpys_dtype(computing, rng, case):
    expression, dtypes, wanted = case
    made = kd.from_expression(expression)
    arrays = tuple(rng.integers(0, 2 if d == "bool" else 9, 33).astype(d) for d in dtypes)
    got = made(*arrays)
    assert got.dtype == wanted
    wide = "float64" if wanted.startswith("float") else None
    with np.errstate(over="ignore"):
        expected = sympy.lambdify((A, B)[: len(dtypes)], expression, "numpy")(
            *(x.astype("int64" if x.dtype == bool else wide or x.dtype) for x in arrays)
        )
    np.testing.assert_allclose(
        got.astype("float64"),
        expected.astype("float64"),
        rtol=1e-3 if wanted == "float16" else 1e-6,
    )


@pytest.mark.full
def test_a_number_of_python_does_not_widen(computing):
    made = kd.from_expression(sympy.Eq(OUT[IX], S * U[IX]))
    for number in (0.1, np.float64(0.1), np.float16(0.1), np.array(0.1)[()]):
        assert made(np.ones(3, "float32"), number).dtype == np.float32
    # Of integers it is no integer.
    np.testing.assert_allclose(made(np.array([1, 2]), 0.25), [0.25, 0.5])


@settings(max_examples=examples(100), deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("mode", full_beyond(MODES, []))
def test_boundaries_are_scipys(mode, data):
    made = stencil(mode)
    shape = data.draw(st.tuples(st.integers(1, 5), st.integers(1, 9)))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    u, w = rng.normal(size=shape), rng.normal(size=(3, 5))
    with kd.use("cpu"):
        got = made(u, w)
    np.testing.assert_allclose(
        got, ndimage.correlate(u, w, mode=mode, cval=2.5), rtol=1e-10, atol=1e-10
    )


#: What numpy.pad calls the boundaries.
_PADS = {"reflect": "symmetric", "mirror": "reflect", "nearest": "edge"}


@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("mode", full_beyond(MODES, MODES[1::2]))
def test_neighbours_are_read_to_the_bit(mode, data):
    made = neighbours(mode)
    shape = data.draw(st.tuples(st.integers(1, 6), st.integers(1, 40)))
    values = np.array([np.nan, -0.0, 0.0, np.inf, 5e-42, -1.5], np.float32)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    whole = rng.choice(values, (2 * shape[0], 3 * shape[1]))
    u = data.draw(st.sampled_from([whole[: shape[0], : shape[1]], whole[1::2, ::-3]]))
    outs = tuple(np.full(shape, 7.5, np.float32) for _ in made.system.outputs)
    with kd.use("cpu"):
        made(u, out=outs)
    named = {"constant_values": -0.0} if mode == "constant" else {}
    around = np.pad(u, _FARTHEST, _PADS.get(mode, mode), **named)
    for (down, right), out in zip(_SHIFTS, outs, strict=True):
        y, x = _FARTHEST + down, _FARTHEST + right
        wanted = around[y : y + shape[0], x : x + shape[1]]
        np.testing.assert_array_equal(out.view(np.int32), wanted.astype("f").view(np.int32))


_FARTHEST = 3
_SHIFTS = [(0, 1), (-1, -1), (2, 0), (0, -3), (1, 2)]


def neighbours(mode):
    """Return a kernel that stores neighbours as they are, each in an array."""
    key = f"neighbours {mode}"
    if key not in _stencils:
        outs = sympy.symbols(f"to0:{len(_SHIFTS)}", cls=sympy.IndexedBase)
        equations = [
            sympy.Eq(out[IX, J], U[IX + down, J + right])
            for out, (down, right) in zip(outs, _SHIFTS, strict=True)
        ]
        _stencils[key] = kd.from_expression(equations, boundary=mode, cval=-0.0)
    return _stencils[key]


_stencils: dict[str, object] = {}


def stencil(mode):
    if mode not in _stencils:
        m = sympy.Symbol("m", integer=True)
        terms = sympy.Sum(W[K, m] * U[IX + K - 1, J + m - 2], (K, 0, 2), (m, 0, 4))
        _stencils[mode] = kd.from_expression(sympy.Eq(OUT[IX, J], terms), boundary=mode, cval=2.5)
    return _stencils[mode]


@pytest.mark.full
@pytest.mark.parametrize("mode", full_beyond(MODES, MODES[::2]))
def test_boundaries_on_each_target(computing, rng, mode):
    u, w = rng.normal(size=(33, 65)).astype("float32"), rng.normal(size=(3, 5)).astype("float32")
    wanted = ndimage.correlate(u.astype("float64"), w, mode=mode, cval=2.5)
    np.testing.assert_allclose(stencil(mode)(u, w), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.full
def test_each_axis_has_its_boundary(computing, rng):
    made = kd.from_expression(
        sympy.Eq(OUT[IX, J], U[IX - 1, J] + 10 * U[IX, J + 2]), boundary=("wrap", "nearest")
    )
    u = rng.normal(size=(4, 6))
    right = u[:, np.minimum(np.arange(6) + 2, 5)]
    np.testing.assert_allclose(made(u), np.roll(u, 1, 0) + 10 * right)


@pytest.mark.full
def test_arrays_of_fewer_axes_and_fixed_indices(computing, rng):
    made = kd.from_expression(sympy.Eq(OUT[IX, J], U[IX, J] * V[J] + W[IX, 2]))
    u, v, w = rng.normal(size=(4, 6)), rng.normal(size=6), rng.normal(size=(4, 3))
    np.testing.assert_allclose(made(u, v, w), u * v + w[:, 2:])
    np.testing.assert_allclose(made(u, v[:1], w[:1]), u * v[0] + w[0, 2])


@pytest.mark.full
def test_indices_and_extents_are_numbers_too(computing, rng):
    n = sympy.Symbol("n", integer=True)
    u = sympy.IndexedBase("u", shape=(n,))
    inner = sympy.And(0 < IX, IX < n - 1)  # noqa: SIM300
    made = kd.from_expression(
        sympy.Eq(OUT[IX], sympy.Piecewise((u[IX] * IX / n, inner), (u[IX], True)))
    )
    x = rng.normal(size=9)
    wanted = x * np.arange(9) / 9
    wanted[[0, -1]] = x[[0, -1]]
    np.testing.assert_allclose(made(x), wanted)


@pytest.mark.full
def test_several_results_and_one_in_place(computing, rng):
    made = kd.from_expression([sympy.Eq(U[IX], U[IX] + V[IX]), sympy.Eq(W[IX], U[IX] * V[IX])])
    u, v = rng.normal(size=(2, 50))
    before = u.copy()
    first, second = made(u, v)
    assert first is u
    np.testing.assert_allclose(u, before + v)
    np.testing.assert_allclose(second, before * v)


def test_a_mapping_names_the_results():
    made = kd.from_expression({"total": A + B, "product": A * B})
    assert made.source.startswith("def expression(a, b, total, product, *, dtype):")


_NAMES = (
    *("sin", "cos", "tan", "atan", "sinh", "cosh", "tanh", "asinh", "exp", "erf", "erfc"),
    *("Abs", "sign", "floor", "ceiling", "sec", "sinc", "sech"),
)
_CALLS = [
    *(getattr(sympy, name)(A) for name in _NAMES),
    *(f((1 + A**2) / 3) for f in (sympy.log, sympy.sqrt, sympy.gamma, sympy.loggamma)),
    *(f(A / (1 + A**2)) for f in (sympy.asin, sympy.acos, sympy.atanh)),
    sympy.acosh(1 + A**2), sympy.atan2(A, B), sympy.Max(A, B), sympy.Min(A, B, 1), sympy.Mod(A, 3),
    A**3, 1 / A**2, sympy.Abs(A) ** B, sympy.exp(2) ** A, (A**2 + 1) ** sympy.Rational(-3, 2),
    sympy.pi * A / 7, sympy.Heaviside(A), sympy.Piecewise((A, A > B), (B, A < 0)), 2**A,
    sympy.ITE(A > 0, B > 0, A < B), sympy.And(A > 0, sympy.Not(sympy.Or(B > 1, A > 2))),
]  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("dtype", full_beyond(["float32", "float64"], ["float64"]))
def test_functions_against_sympy(computing, rng, dtype):
    # One kernel for all, with a result for each.
    made = kd.from_expression(
        [e + 0 * A + 0 * B if isinstance(e, sympy.Expr) else e for e in _CALLS],
        parameters=("a", "b"),
    )
    a, b = (rng.uniform(-4, 4, 257).astype(dtype) for _ in range(2))
    bound = 2e-4 if dtype == "float32" else 1e-11
    for expression, got in zip(_CALLS, made(a, b), strict=True):
        function = sympy.lambdify((A, B), expression, ["scipy", "numpy"])
        wanted = np.broadcast_to(function(a.astype("float64"), b.astype("float64")), a.shape)
        np.testing.assert_allclose(got, wanted, rtol=bound, atol=bound, err_msg=str(expression))


@pytest.mark.full
def test_functions_have_ptx():
    text = kd.from_expression(_CALLS).ptx(
        ", ".join(["float32[::1]"] * (2 + len(_CALLS))), forall=1, arch="sm_90"
    )
    assert text.count("st.global") == len(_CALLS)


@pytest.mark.full
def test_special_values(computing):
    made = kd.from_expression({"s": sympy.sign(A), "m": sympy.Abs(A), "r": 1 / A})
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, -2.5])
    s, m, r = made(x)
    np.testing.assert_array_equal(s, np.sign(x))
    np.testing.assert_array_equal(m, np.abs(x))
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(r, 1 / x)


@pytest.mark.full
def test_a_kernel_travels(formula):
    with kd.use("cpu"):
        copy = pickle.loads(pickle.dumps(formula))  # noqa: S301
        assert copy.source == formula.source
        np.testing.assert_array_equal(copy(np.ones(3), 2.0), formula(np.ones(3), 2.0))


def test_the_source_is_found_where_python_looks(formula):
    import inspect
    import linecache

    assert inspect.getsource(formula) == formula.source
    assert "math.sin(" in linecache.getline(formula.function.__code__.co_filename, 7)
    assert "out[i0] =" in formula.source
    assert formula.__doc__.startswith("out[i0] = ")


@pytest.mark.full
def test_forms_are_made_once(formula):
    with kd.use("cpu"):
        x = np.ones((3, 4))
        formula(x, x[0]), formula(x, x[1]), formula(x, x)
    assert len(formula._forms) == 1
