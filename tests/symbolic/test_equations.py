"""Differential equations, stepped by kernels of their schemes, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import sympy

import kerneldsl as kd
from tests.support.extent import full_beyond
from tests.support.region_text import region_text, rows_of

X, Y, H, DT = sympy.symbols("x y h dt")
U, U_NEXT, U_OLD, V, V_NEXT = map(sympy.Function, ("u", "u_next", "u_old", "v", "v_next"))
SHAPE = (37, 70)


def laplacian(f):
    """Five-point scheme of ∂²f/∂x² + ∂²f/∂y²."""
    return sum(
        sympy.Derivative(f(X, Y), s, 2).as_finite_difference([s - H, s, s + H]) for s in (X, Y)
    )


def laplacian_numpy(u, h):
    sides = [np.roll(u, s, axis) for s in (1, -1) for axis in (0, 1)]
    return (sum(sides) - 4 * u) / (h * h)


def heat(**options):
    rate = sympy.Symbol("rate")
    equation = sympy.Eq(U_NEXT(X, Y), U(X, Y) + rate * DT * laplacian(U))
    return kd.from_expression(equation, name="heat", boundary="wrap", **options)


def wave():
    speed = sympy.Symbol("c")
    equation = 2 * U(X, Y) - U_OLD(X, Y) + (speed * DT) ** 2 * laplacian(U)
    return kd.from_expression(sympy.Eq(U_NEXT(X, Y), equation), name="wave", boundary="wrap")


def gray_scott():
    feed, kill, du, dv = sympy.symbols("feed kill du dv")
    u, v = U(X, Y), V(X, Y)
    reaction = u * v**2
    return kd.from_expression(
        [
            sympy.Eq(U_NEXT(X, Y), u + DT * (du * laplacian(U) - reaction + feed * (1 - u))),
            sympy.Eq(V_NEXT(X, Y), v + DT * (dv * laplacian(V) + reaction - (feed + kill) * v)),
        ],
        name="gray_scott",
        boundary="wrap",
    )


def tolerance(dtype):
    return {"rtol": 1e-4, "atol": 1e-5} if dtype == "float32" else {"rtol": 1e-11, "atol": 1e-12}


dtypes = pytest.mark.parametrize("dtype", full_beyond(["float32", "float64"], ["float32"]))


@dtypes
def test_heat(computing, rng, dtype):
    step = heat()
    exact = u = rng.uniform(0, 1, SHAPE).astype(dtype)
    u, other = kd.to_device(u), kd.full(SHAPE, np.nan, dtype)
    for _ in range(5):
        step.forall(*SHAPE)(u, 0.01, 0.25, 0.3, other)
        u, other = other, u
        exact = exact + 0.3 * 0.01 * laplacian_numpy(exact.astype("float64"), 0.25)
    np.testing.assert_allclose(u.copy_to_host(), exact, **tolerance(dtype))


@pytest.mark.full
@dtypes
def test_wave(computing, rng, dtype):
    step = wave()
    u, old = (rng.uniform(-1, 1, SHAPE).astype(dtype) for _ in range(2))
    exact, exact_old = u.astype("float64"), old.astype("float64")
    for _ in range(5):
        u, old = step(u, old, c=0.5, dt=0.1, h=0.25), u
        following = 2 * exact - exact_old + 0.05**2 * laplacian_numpy(exact, 0.25)
        exact, exact_old = following, exact
    assert u.dtype == dtype
    np.testing.assert_allclose(u, exact, **tolerance(dtype))


@pytest.mark.full
@dtypes
def test_gray_scott(computing, rng, dtype):
    step = gray_scott()
    u, v = (rng.uniform(0, 1, SHAPE).astype(dtype) for _ in range(2))
    exact_u, exact_v = u.astype("float64"), v.astype("float64")
    numbers = {"du": 0.16, "dv": 0.08, "feed": 0.035, "kill": 0.06, "dt": 1.0, "h": 1.0}
    for _ in range(4):
        u, v = step(u, v, **numbers)
        reaction = exact_u * exact_v**2
        exact_u, exact_v = (
            exact_u + 0.16 * laplacian_numpy(exact_u, 1.0) - reaction + 0.035 * (1 - exact_u),
            exact_v + 0.08 * laplacian_numpy(exact_v, 1.0) + reaction - 0.095 * exact_v,
        )
    np.testing.assert_allclose(u, exact_u, **tolerance(dtype))
    np.testing.assert_allclose(v, exact_v, **tolerance(dtype))


def test_launches_pass_everywhere(on):
    step = heat()
    arrays = [kd.ones(SHAPE, "float32") for _ in range(2)]
    step.forall(*SHAPE)(arrays[0], 0.1, 0.1, 0.1, arrays[1])
    arrays[0].copy_to_host()
    assert len(step.specializations) == 1
    assert "float32[:, ::1], float64, float64" in str(step.specializations[0])


def test_numbers_are_no_float64_among_float32():
    text = heat().ptx(
        "float32[:, ::1], float32, float32, float32, float32[:, ::1]", forall=2, arch="sm_90"
    )
    assert "f64" not in text
    assert "fma.rn.f32" in text


def test_edges_cost_no_second_loop_over_the_elements():
    # Of whole steps, indices at the ends are chosen by a comparison: there is one store.
    assert heat().source.count("u_next[x, y] =") == 1
    assert heat().source.count("** 2") == 1


def test_numbers_divide_once_by_what_they_have_in_common() -> None:
    u, v, step, first, second = sympy.symbols("u v step first second")
    out, other = sympy.symbols("out other")
    equations = [sympy.Eq(out, u * first / step**2), sympy.Eq(other, v * second / step**2)]
    made = kd.from_expression(equations)
    assert made.source.count(" / ") == 1
    values = np.array([1.0, -3.5, 0.0])
    with kd.use("cpu"):
        found = made(u=values, v=values + 1, step=0.5, first=3.0, second=-2.0)
    np.testing.assert_allclose(found[0], values * 12.0, rtol=1e-15)
    np.testing.assert_allclose(found[1], (values + 1) * -8.0, rtol=1e-15)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_guard_is_a_bound_of_the_loop_over_a_row(dtype):
    array, number = f"{dtype}[:, ::1]", dtype
    signature = ", ".join((array, *([number] * 3), array))
    text = region_text(heat(), signature, forall=2)
    row = rows_of(text)[0].split("for ")[0]
    before = text.split("row %")[0]
    assert "if " not in row
    extent = next(line for line in before.splitlines() if "axis=1] %u_next" in line)
    assert f"int.min %1, {extent.split(':')[0].strip()}" in before
    assert "cast" not in row
    assert "truediv" not in row


def test_sums_of_elements_come_before_what_they_are_multiplied_with():
    u, v, first, second = map(sympy.IndexedBase, ("u", "v", "first", "second"))
    i, j = sympy.symbols("i j", integer=True)
    a, b = sympy.symbols("a b")
    sums = [w[i - 1, j] + w[i + 1, j] + w[i, j] for w in (u, v)]
    equations = [
        sympy.Eq(first[i, j], a * sums[0] + u[i, j] * v[i, j]),
        sympy.Eq(second[i, j], b * sums[1] - u[i, j] * v[i, j]),
    ]
    made = kd.from_expression(equations, boundary="wrap")
    left = [line.split()[0] for line in made.source.splitlines() if " = " in line]
    assert left.index("s1") == left.index("s0") + 1
    assert left.index("t0") == left.index("s0") + 2
    rng = np.random.default_rng()
    x, y = rng.random((2, 5, 3))
    with kd.use("cpu"):
        found = made(u=x, v=y, a=0.5, b=-2.0)
    around = [np.roll(w, 1, 0) + np.roll(w, -1, 0) + w for w in (x, y)]
    np.testing.assert_allclose(found[0], 0.5 * around[0] + x * y, rtol=1e-14)
    np.testing.assert_allclose(found[1], -2.0 * around[1] - x * y, rtol=1e-14)


def test_all_is_read_before_anything_is_stored():
    i = sympy.Symbol("i", integer=True)
    u, v, a, b = map(sympy.IndexedBase, "uvab")
    step = kd.from_expression(
        [sympy.Eq(a[i], u[i] * v[i]), sympy.Eq(b[i], u[i] + v[i])], name="step"
    )
    lines = step.source.splitlines()
    stores = [n for n, line in enumerate(lines) if "[i] = " in line]
    assert stores == [len(lines) - 2, len(lines) - 1]
    assert not any("[i]" in lines[n].partition(" = ")[2] for n in stores)
