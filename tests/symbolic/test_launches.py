"""Kernels of expressions and derivatives are kernels: plans, code, launches and their dtypes."""

from __future__ import annotations

import fractions

import numpy as np
import pytest
import sympy

import kerneldsl as kd
from kerneldsl.errors import ArgumentError, ArgumentTypeError

A, B = sympy.symbols("a b")
IX, J = sympy.symbols("i j", integer=True)
U, V, OUT = map(sympy.IndexedBase, ("u", "v", "out"))
TWO = np.float32(2)
THREE = "float32[::1], float32[::1], float32[::1]"


@kd.kernel
def product(a, b, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a[i] * a[i] * b[i]


@pytest.fixture(params=["plain", "parameterized", "expression", "derivative"])
def kernel(request):
    """A kernel of three arrays, of each kind."""
    if request.param == "plain":
        return product
    if request.param == "expression":
        return kd.from_expression(A**2 * B)
    if request.param == "derivative":
        return kd.derivative(product, "a")

    @kd.kernel
    def scaled(a, b, out, *, factor=TWO):
        i = kd.grid(1)
        if i < out.size:
            out[i] = factor * a[i] * b[i]

    return scaled


@pytest.fixture
def arrays():
    return [np.full(1000, value, np.float32) for value in (2, 3, np.nan)]


def test_a_signature_is_planned(kernel):
    launch = kernel.forall(1 << 20)
    described = launch.plan(THREE, arch="sm_90")
    assert described.arch == "sm_90"
    assert described.extent == (1 << 20,)
    assert launch.plans(THREE, arch="sm_90")[0].block_dim == described.block_dim
    assert launch.plan(THREE, device="cpu").device == "cpu"
    numba = pytest.importorskip("numba")
    assert launch.plan(numba.void(*[numba.float32[::1]] * 3), arch="sm_90") == described


def test_arguments_are_planned_as_their_signature_is_compiled(kernel, arrays):
    plan = kernel.forall(1000).plan(*arrays, arch="sm_90")
    assert plan.arch == "sm_90"
    shown = kernel.typed_source(*arrays)
    assert shown == kernel.typed_source(THREE)
    assert "float64" not in shown


def test_the_forms_of_code(kernel, arrays):
    assert ".target sm_90" in kernel.ptx(THREE, arch="sm_90")
    assert kernel.ptx(THREE, arch="sm_90") == kernel.ptx(*arrays, arch="sm_90")
    assert "f64" not in kernel.ptx(THREE, arch="sm_90", forall=1)
    with kd.use("cpu"):
        assert kernel.asm(THREE)
        assert kernel.llvm(THREE)
        assert kernel.cpu_source(THREE)
    assert f"def {kernel.__name__}(a, b, out" in kernel.source


def test_explanations(kernel, arrays):
    by_text = kernel.explain(THREE, forall=1000, arch="sm_90", occupancy=False)
    by_arrays = kernel.explain(*arrays, forall=1000, arch="sm_90", occupancy=False)
    assert len(by_text.accesses) == len(by_arrays.accesses) >= 3
    assert not by_arrays.assumed.get("a")
    assert kernel.explain(THREE, occupancy=False).accesses


def test_times_and_tunes(kernel, arrays):
    a, b, out = arrays
    with kd.use("cpu"):
        assert kernel.forall(1000).time(a, b, out, samples=1).median_ns
        assert kernel.forall(1000).time(a, b=b, out=out, samples=1).median_ns
        with pytest.raises(ArgumentTypeError, match=r"'arch' that it does not have"):
            kernel.forall(1000).time(a, b, out, arch="sm_90")
        report = kernel.forall(1000).tune(a, b, out, budget=0.05, progress=False)
        assert report.plan.extent == (1000,)
        with pytest.raises(ArgumentTypeError, match="tuned with a signature") as caught:
            kernel.forall(1000).tune(THREE)
    assert "plan" in caught.value.remedy


def test_kd_tune_holds_for_each_value_of_the_parameters(kernel, arrays):
    known = kernel.forall(1000)
    with kd.use("cpu"):
        known(*arrays)
        tuned = kd.tune("50ms")(kernel)
        try:
            assert tuned is kernel
            launch = kernel.forall(1000)
            launch(*arrays)
            of_values = getattr(launch, "_launches", {None: launch})
            assert {each.kernel._tuning.budget.seconds for each in of_values.values()} == {0.05}
        finally:
            kernel._tune_by(None)


@pytest.mark.parametrize(
    ("args", "what"),
    [
        ((), "0 arguments: missing 'a', 'b', 'out'"),
        (("float32[:]",), "1 argument: missing 'b', 'out'"),
        (("floatx[:], float32[:], float32[:]",), "unknown dtype 'floatx'"),
        (("float32[:]", "float32[:]", "float32[:]"), "was given 3 signatures"),
        (([1.0], np.ones(1), np.ones(1)), r"'a' \(argument 1 of 3\): a list cannot be passed"),
        ((np.ones(1), None, np.ones(1)), r"'b' \(argument 2 of 3\): None cannot be passed"),
        ((np.ones(1), np.ones(1)), "2 arguments: missing 'out'"),
    ],
)
def test_what_cannot_be_passed_is_refused_as_by_any_kernel(kernel, args, what):
    for refusing in (kernel.forall(1).plan, kernel.ptx):
        with pytest.raises(ArgumentError, match=what):
            refusing(*args)


def test_a_declared_signature_says_the_dtype():
    made = kd.from_expression(A / 3, signature="float32[:], float32[:]")
    assert "f64" not in made.ptx()
    assert "float64" not in made.typed_source()
    assert made.explain(occupancy=False).accesses


def test_arrays_without_a_dtype_of_their_own():
    class Foreign:
        def __init__(self, array):
            self._array = array

        def __dlpack__(self, **named):
            return self._array.__dlpack__(**named)

        def __dlpack_device__(self):
            return self._array.__dlpack_device__()

    made = kd.from_expression(A / 3)
    x, out = np.ones(3, np.float32), np.full(3, np.nan, np.float32)
    with kd.use("cpu"):
        made.forall(3)(Foreign(x), out)
    np.testing.assert_array_equal(out, np.float32(1) / np.float32(3))
    assert "float64" not in made.typed_source(Foreign(x), out)


@pytest.mark.parametrize("dtype", ["float64", np.float64, np.dtype("f8"), float, kd.float64])
def test_a_launch_names_the_dtype(dtype):
    made = kd.from_expression(A / 3)
    x, out = np.ones(3, np.float32), np.full(3, np.nan)
    with kd.use("cpu"):
        made.forall(3)(x, out, dtype=dtype)
    np.testing.assert_array_equal(out, 1 / 3)


@pytest.mark.parametrize("dtype", ["complex64", bool, 3, None, "float33"])
def test_a_dtype_in_which_nothing_is_computed(dtype):
    with pytest.raises(ArgumentTypeError, match="dtype is"):
        kd.from_expression(A / 3).forall(3)(np.ones(3), np.ones(3), dtype=dtype)


@pytest.mark.parametrize(
    ("expression", "args", "what", "remedy"),
    [
        (A + B, (np.ones((3, 1)), np.ones(3), np.ones(3)), "'a' .* an array of 2 axes", "ndim="),
        (A + B, (np.ones(3), 2.0, np.ones(3)), "'b' .* was given a number", "itself"),
        (A + B, ("float32[:], float32[:, :], float32[:]",), "'b' .* an array of 2 axes", "ndim="),
        (U[IX] * A, (np.ones((3, 3)), 2.0, np.ones(3)), "'u' .* an array of 2 axes", "Reshape"),
        (U[IX] * A, (np.ones(3), np.ones(3), np.ones(3)), "'a' .* an array of 1 axis", "number"),
        (U[IX] * A, ("f4[:], f4, f4",), "'out' .* was given a number", "Reshape"),
    ],
)
def test_a_launch_of_other_ranks(expression, args, what, remedy):
    made = kd.from_expression(expression)
    launch = made.forall(3)
    for refusing in (launch.plan, made.ptx, *([launch] if len(args) > 1 else [])):
        with pytest.raises(ArgumentTypeError, match=what) as caught:
            refusing(*args)
        assert remedy in caught.value.remedy


def test_a_space_is_refused():
    with pytest.raises(ArgumentTypeError, match="was given a space") as caught:
        kd.from_expression(A, space=kd.Space(block=[64, 128]))
    assert "block=" in caught.value.remedy


def test_arrays_without_axes(computing):
    made = kd.from_expression(A / B)
    for x in (np.array(3.0, np.float32), kd.to_device(np.array(3.0, np.float32))):
        got = made(x, 2)
        assert got.shape == ()
        assert got.dtype == np.float32
        assert got.item() == 1.5
    out = np.array(np.nan)
    assert made(np.array(3.0), 2, out=out).shape == ()
    assert out == 1.5
    np.testing.assert_array_equal(made(np.array([3.0, 1.0]), np.array(2.0)), [1.5, 0.5])
    np.testing.assert_array_equal(kd.from_expression(U[IX] * A)(np.array(3.0), 2.0), [6.0])
    several = kd.from_expression([A + B, A - B])(np.array(3.0), np.array(1.0))
    assert [each.item() for each in several] == [4.0, 2.0]


def test_numbers_of_other_packages():
    made = kd.from_expression(A * B)
    x = np.array([3.0, -0.0], np.float32)
    with kd.use("cpu"):
        for number in (fractions.Fraction(1, 2), sympy.Rational(1, 2), sympy.Float(0.5)):
            got = made(x, number)
            np.testing.assert_array_equal(got, np.float32([1.5, -0.0]))
            assert np.signbit(got[1])
            assert got.dtype == np.float32
        assert made(np.array([3]), sympy.Integer(2)).dtype == np.int64


@pytest.mark.parametrize("to", [np.asarray, kd.to_device], ids=["host", "device"])
def test_results_in_memory_that_is_read(computing, to):
    made = kd.from_expression(A + 1)
    x = to(np.arange(4.0))
    with pytest.raises(ArgumentError, match="out shares memory with a"):
        made(x[:3], out=x[1:])
    with pytest.raises(ArgumentError, match="out shares memory with a"):
        kd.from_expression(A + B)(x[:1], to(np.ones(4)), out=x)
    with pytest.raises(ArgumentError, match="out shares memory with a"):
        made(x, out=x[::-1])
    made(x[::2], out=x[1::2])
    made(x, out=x[:])
    got = x if isinstance(x, np.ndarray) else x.copy_to_host()
    np.testing.assert_array_equal(got, [1, 2, 3, 4])
    square = to(np.arange(9.0).reshape(3, 3))
    with pytest.raises(ArgumentError, match="out shares memory with u"):
        kd.from_expression(sympy.Eq(OUT[IX, J], U[J, IX]))(square, out=square)
    with pytest.raises(ArgumentError, match="out shares memory with v"):
        kd.from_expression(sympy.Eq(OUT[IX, J], U[IX, J] + V[J]))(square, square[1], out=square)


@pytest.mark.parametrize("read", [U[J, IX], U[0, J], U[IX, 2]])
def test_what_is_written_is_read_in_its_place_alone(read):
    with pytest.raises(ArgumentError, match="u is written, and read as"):
        kd.from_expression(sympy.Eq(U[IX, J], U[IX, J] + read))


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ([1.0, 2.0], r"a is \[1.0, 2.0\]"),
        ("text", "a is 'text'"),
        (None, "a is None"),
        (2j, "a is 2j"),
        (np.array(["text"]), "dtype str"),
        (np.array([None]), "dtype object"),
    ],
)
def test_a_call_with_what_is_no_array(value, what):
    with pytest.raises(ArgumentError, match=what) as caught:
        kd.from_expression(A + 1)(value)
    assert "np.asarray" in caught.value.remedy or "astype" in caught.value.remedy
    if type(value) is list:
        with pytest.raises(ArgumentError, match=r"out is \[1.0, 2.0\]"):
            kd.from_expression(A + 1)(np.ones(2), out=value)
