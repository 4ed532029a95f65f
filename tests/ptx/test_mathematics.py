"""Mathematical functions: every one compiles, links and assembles; missing libdevice is told."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.errors import CompileError, LibdeviceMissingError
from targets.cuda.compile import libdevice
from targets.cuda.intrinsics.by_architecture import _ERFC_POWERS
from tests.ptx.helpers import assemble_together, body_of, compile_ptx, specialize
from tests.support.extent import full_beyond, sample

# fmt: off
_MATH_ONE = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "ceil", "cos", "cosh", "degrees",
    "erf", "erfc", "exp", "expm1", "fabs", "floor", "gamma", "isfinite", "isinf", "isnan",
    "lgamma", "log", "log10", "log1p", "log2", "radians", "sin", "sinh", "sqrt", "tan", "tanh",
    "trunc",
)
_MATH_TWO = ("atan2", "copysign", "fmod", "hypot", "nextafter", "pow")
_NUMPY_ONE = (
    "abs", "absolute", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "cbrt",
    "ceil", "cos", "cosh", "deg2rad", "degrees", "exp", "exp2", "expm1", "fabs", "floor",
    "isfinite", "isinf", "isnan", "log", "log10", "log1p", "log2", "negative", "positive",
    "rad2deg", "radians", "reciprocal", "rint", "sign", "signbit", "sin", "sinh", "spacing",
    "sqrt", "square", "tan", "tanh", "trunc",
)
_NUMPY_TWO = (
    "add", "arctan2", "copysign", "divide", "equal", "floor_divide", "fmax", "fmin", "fmod",
    "greater", "greater_equal", "hypot", "less", "less_equal", "logaddexp", "logaddexp2",
    "maximum", "minimum", "mod", "multiply", "nextafter", "not_equal", "power", "remainder",
    "subtract", "true_divide",
)
# fmt: on


def _one(function):
    def apply(x, out):
        i = kd.grid(1)
        if i < out.size:
            out[i] = function(x[i])

    return apply


def _two(function):
    def apply(x, out):
        i = kd.grid(1)
        if i < out.size:
            out[i] = function(x[i], x[i + 1])

    return apply


_KERNELS = {
    **{f"math.{n}": _one(getattr(math, n)) for n in _MATH_ONE},
    **{f"math.{n}": _two(getattr(math, n)) for n in _MATH_TWO},
    **{f"np.{n}": _one(getattr(np, n)) for n in _NUMPY_ONE},
    **{f"np.{n}": _two(getattr(np, n)) for n in _NUMPY_TWO},
}


@pytest.mark.parametrize("dtype", full_beyond(["float32", "float64"], ["float32"]))
def test_every_function_assembles(dtype: str) -> None:
    signature = f"{dtype}[::1], {dtype}[::1]"
    artifacts = [compile_ptx(kernel, signature) for kernel in sample([*_KERNELS.values()], 40)]
    assert assemble_together(artifacts, "sm_75") == len(artifacts)


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_extremes_that_keep_nan_are_one_instruction_where_there_is_one(name):
    def instructions(arch):
        artifact = compile_ptx(_KERNELS[f"np.{name}"], "float32[::1], float32[::1]", arch)
        return body_of(artifact)

    assert f"{name[:3]}.NaN.f32" in instructions("sm_80")
    assert "selp.f32" not in instructions("sm_80")
    assert "selp.f32" in instructions("sm_75")  # which has none that keeps a NaN


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint32"])
def test_integers_are_converted(dtype: str) -> None:
    names = [n for n in _KERNELS if n.split(".")[1] in ("sqrt", "sin", "floor", "exp", "hypot")]
    artifacts = [compile_ptx(_KERNELS[n], f"{dtype}[::1], float64[::1]") for n in names]
    assert assemble_together(artifacts, "sm_75") == len(names)


@pytest.mark.parametrize(
    ("name", "instruction"),
    [
        ("math.sqrt", "sqrt.rn.f32"),
        ("np.sqrt", "sqrt.rn.f32"),
        ("math.fabs", "abs.f32"),
        ("np.floor", "cvt.rmi.f32.f32"),
        ("np.ceil", "cvt.rpi.f32.f32"),
        ("np.trunc", "cvt.rzi.f32.f32"),
        ("np.rint", "cvt.rni.f32.f32"),
    ],
)
def test_what_the_hardware_does_exactly_needs_no_library(name: str, instruction: str) -> None:
    artifact = compile_ptx(_KERNELS[name], "float32[::1], float32[::1]")
    assert instruction in body_of(artifact)
    assert ".func" not in artifact.ptx


def test_fastmath_takes_the_approximate_functions() -> None:
    signature = "float32[::1], float32[::1]"
    fast = body_of(compile_ptx(_KERNELS["math.sin"], signature, fastmath=True))
    exact = body_of(compile_ptx(_KERNELS["math.sin"], signature))
    assert "sin.approx" in fast
    assert "sin.approx" not in exact


def test_the_fast_hyperbolic_tangent_is_an_instruction_from_7_5_on() -> None:
    def compiled(arch: str, **options: bool):
        signature = "float32[::1], float32[::1]"
        return compile_ptx(_KERNELS["math.tanh"], signature, arch, **options)

    assert "tanh.approx" in body_of(compiled("sm_75", fastmath=True))
    assert "tanh.approx" not in body_of(compiled("sm_75"))
    older = compiled("sm_70", fastmath=True)
    assert "tanh.approx" not in body_of(older)
    assert ".func" not in older.ptx
    assert assemble_together([older, compiled("sm_75", fastmath=True)], "sm_75") == 2


def test_libdevice_flushes_subnormals_under_fastmath_alone() -> None:
    signature = "float32[::1], float32[::1]"
    kernel = _KERNELS["math.sinh"]
    assert "fma.rn.ftz.f32" not in body_of(compile_ptx(kernel, signature))
    assert "fma.rn.ftz.f32" in body_of(compile_ptx(kernel, signature, fastmath=True))


def test_missing_libdevice_names_function_line_and_remedy(monkeypatch) -> None:
    from targets.cuda.compile.compiler import compile_kernel

    def needs_it(x):
        i = kd.grid(1)
        x[i] = 2 * math.tanh(x[i])

    def does_not(x):
        i = kd.grid(1)
        x[i] = math.sqrt(x[i])

    monkeypatch.setattr(libdevice, "find_libdevice", lambda: None)
    with pytest.raises(LibdeviceMissingError) as raised:
        compile_kernel(specialize(needs_it, "float32[::1]"), arch="sm_75")
    assert raised.value.value == "tanh"
    assert raised.value.where is not None
    assert raised.value.where.lineno == needs_it.__code__.co_firstlineno + 2
    assert 'pip install "kerneldsl[cuda13]"' in str(raised.value)
    assert compile_kernel(specialize(does_not, "float32[::1]"), arch="sm_75").ptx


def _by_operator(x):
    y = x[1] + 1
    x[0] = y ** x[0]


def _in_place(x):
    x[0] = 1
    x[0] %= x[1]


def _by_its_own_name(x):
    x[0] = math.sin(x[1])
    x[0] = kd.libdevice.tgamma(x[1])


@kd.func
def _power(x, y):
    z = x + 1
    return math.pow(z, y)


def _in_a_function(x):
    x[0] = _power(x[0], x[1])


@pytest.mark.parametrize(
    ("kernel", "function", "line"),
    [
        (_by_operator, "pow", "x[0] = y ** x[0]"),
        (_in_place, "% (fmod)", "x[0] %= x[1]"),
        (_by_its_own_name, "gamma", "x[0] = kd.libdevice.tgamma(x[1])"),
        (_in_a_function, "pow", "return math.pow(z, y)"),
        (_in_place, "cos", "def _in_place(x):"),
    ],
)
def test_the_line_that_needs_a_function_is_found(kernel, function, line) -> None:
    from targets.cuda.compile.regions.read import find_call

    where = find_call(specialize(kernel, "float64[::1]"), function)
    assert where.line.strip() == line


def test_a_function_that_no_device_has_is_told() -> None:
    from targets.cuda.compile.compiler import compile_kernel

    def draws(x):
        x[0] = np.random.random()

    with pytest.raises((CompileError, kd.KernelError)):
        compile_kernel(specialize(draws, "float64[::1]"), arch="sm_75")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_remainder_is_exact(dtype: str) -> None:
    """The back end's own expansion, x - y * trunc(x / y), is wrong for large quotients."""

    def remainder(x, out):
        i = kd.grid(1)
        out[i] = x[i] % out[i]

    body = body_of(compile_ptx(remainder, f"{dtype}[::1], {dtype}[::1]"))
    assert "bra" in body  # libdevice's fmod is a loop


def _sum(x, out):
    i = kd.grid(1)
    out[i] = kd.float32(1) + math.erf(x[i])


def _sum_and_more(x, out):
    i = kd.grid(1)
    value = math.erf(x[i])
    out[i] = kd.float32(1) + value
    out[i + 1] = value


def test_one_plus_an_error_function_is_one_power():
    body = body_of(compile_ptx(_sum, "float32[::1], float32[::1]"))
    assert body.count("ex2.approx.ftz.f32") == 1
    assert body.count("fma.rn.f32") == len(_ERFC_POWERS) - 1


@pytest.mark.parametrize(("kernel", "contract"), [(_sum, False), (_sum_and_more, True)])
def test_other_sums_have_the_error_function_of_libdevice(kernel, contract):
    body = body_of(compile_ptx(kernel, "float32[::1], float32[::1]", contract=contract))
    assert len(re.findall(r"selp\.[bf]32", body)) > 5  # it chooses between polynomials


def test_the_error_of_one_plus_an_error_function():
    x = np.linspace(-7, 7, 20001, dtype=np.float32)
    x = np.concatenate([x, np.float32([0, 1e-40, -1e-40, 3e38, -3e38, np.inf, -np.inf])])
    size, total = np.abs(x).astype(np.float64), np.full(x.shape, np.float32(_ERFC_POWERS[-1]))
    with np.errstate(over="ignore"):
        for power in _ERFC_POWERS[-2::-1]:
            total = (total * size + np.float32(power)).astype(np.float32)
        rest = np.exp2((total * size).astype(np.float32))
    found = np.where(x < 0, rest, np.float32(2) - rest)
    assert np.abs(found - np.array([math.erfc(-each) for each in x])).max() < 1.3e-7


def test_a_kernel_may_have_the_name_of_a_function_that_it_calls():
    def erf(x, out):
        i = kd.grid(1)
        if i < out.size:
            out[i] = math.erf(x[i])

    assert ".visible .entry erf_kernel(" in compile_ptx(erf, "float64[::1], float64[::1]").ptx
