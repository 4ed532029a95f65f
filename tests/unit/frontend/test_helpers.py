"""Plain functions, lambdas and functions in functions, as the front end takes them apart."""
# What is never run may hold what nobody should write.
# ruff: noqa: PLC3002, F811

from __future__ import annotations

import ast
import linecache
import pickle
from types import SimpleNamespace

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.errors import KernelTypingError, UnsupportedConstructError
from kerneldsl.frontend.normalize import make_unit
from kerneldsl.frontend.source import find_source

TWO = 2


def plain(x, y=3, *, z):
    return x + y * z


def of_python(x):
    try:
        return 1 / x
    except ZeroDivisionError:
        return 0


def forever(x):
    return again(x)


def again(x):
    return forever(x - 1)


def without_attribute(x):
    y = x + 1
    return y.missing


one, two = lambda x: x + 1, lambda x: x + TWO
nested = lambda x: (lambda y: y * 2)(x)
# Columns are counted in characters, not bytes.
before, behind = lambda x: x == len("éé"), lambda x: x == len("éé")


def refusal(function) -> UnsupportedConstructError:
    with pytest.raises(UnsupportedConstructError) as caught:
        make_unit(function)
    return caught.value


def shown(error) -> str:
    """What the caret stands under."""
    return error.where.line[error.where.col_offset : error.where.end_col_offset]


# Functions from outside


def test_a_plain_function_is_a_device_function():
    def kernel(x):
        x[0] = plain(x[1], z=2) + plain(z=1, y=5, x=0)

    unit = make_unit(kernel)
    assert "plain(x[1], 3, 2) + plain(0, 5, 1)" in unit.source()
    assert unit.callees["plain"].parameters == ("x", "y", "z")
    assert "plain" in [each.path for each in unit.captured]


def test_calls_must_fit():
    def missing(x):
        x[0] = plain(1)

    def by_position(x):
        x[0] = plain(1, 2, 3)

    assert "z not given" in refusal(missing).what
    error = refusal(by_position)
    assert "takes 2 positional arguments" in error.what
    assert "plain(x, y, z=…)" in error.remedy


def test_what_is_wrong_in_a_helper_is_shown_there_with_the_call():
    def kernel(x):
        x[0] = of_python(x[1])

    error = refusal(kernel)
    assert error.where.line.strip() == "try:"
    (called,) = error.chain
    assert "x[0] = of_python(x[1])" in called
    assert called.startswith("called at ")


def test_recursion_names_the_way():
    def kernel(x):
        x[0] = forever(x[1])

    error = refusal(kernel)
    assert "forever calls itself: forever → again → forever" in error.what
    assert "loop" in error.remedy


def test_types_that_do_not_fit_are_shown_in_the_helper():
    @kd.kernel
    def kernel(x):
        x[0] = without_attribute(x[1])

    for compile_ in (
        lambda: kernel.forall(1)(np.zeros(2)),
        lambda: kernel.ptx("float64[::1]", arch="sm_90"),
    ):
        with pytest.raises(KernelTypingError) as caught, kd.use("cpu"):
            compile_()
        assert caught.value.where.function == "without_attribute"
        assert shown(caught.value) == "y.missing"


def test_functions_without_source_or_of_the_host_are_refused():
    scope: dict = {}
    exec("def made(x): return x", scope)
    made = scope["made"]

    def without_source(x):
        x[0] = made(1)

    def of_the_host(x):
        x[0] = kd.to_device(1)

    with pytest.raises(kd.KernelError, match=r"source of made cannot be found[\s\S]*called at"):
        make_unit(without_source)
    assert "for the host" in refusal(of_the_host).what


def test_attributes_of_plain_functions_are_constants():
    def counted(x):
        return x

    counted.limit = 7

    def kernel(x):
        x[0] = counted.limit

    assert make_unit(kernel).constants["counted_limit"].value == 7


# Lambdas


def _returned(function) -> str:
    return ast.unparse(find_source(function).node.body[0])


def test_lambdas_of_one_line_are_told_apart():
    assert _returned(one) == "return x + 1"
    assert _returned(two) == "return x + TWO"
    assert _returned(nested) == "return (lambda y: y * 2)(x)"
    source = find_source(behind).node
    first = find_source(before).node
    assert source.lineno == first.lineno
    assert source.col_offset > first.col_offset
    assert linecache.getline(__file__, source.lineno)[source.col_offset :].startswith("lambda")
    pair = SimpleNamespace(a=lambda x: -x, b=lambda x: -x)
    assert find_source(pair.a).node.col_offset < find_source(pair.b).node.col_offset


def test_lambda_in_a_lambda():
    inner = (lambda: lambda x: x + 5)()
    assert _returned(inner) == "return x + 5"


def test_a_lambda_is_no_kernel():
    with pytest.raises(UnsupportedConstructError, match="A lambda cannot be a kernel"):
        kd.kernel(lambda x: x).forall(1)(np.zeros(1))


def test_a_decorated_lambda():
    triple = kd.func(lambda x: x * 3)

    def kernel(x):
        x[0] = triple(x[1])

    assert "return x * 3" in make_unit(kernel).callees["triple"].source()


# Functions in functions


def test_variables_around_become_parameters():
    def kernel(x):
        n = 4
        f = lambda v, w=n: v * n + w

        def g(j, *, k=1):
            return f(x[j]) * k

        n = 5
        x[0] = g(2) + f(1, 2)

    unit = make_unit(kernel)
    assert unit.callees["f"].parameters == ("v", "w", "n")
    assert unit.callees["g"].parameters == ("j", "k", "kd_default_f_w_", "n", "x")
    assert "g(2, kd_default_g_k_, kd_default_f_w_, n, x) + f(1, 2, n)" in unit.source()
    assert unit.source().index("kd_default_f_w_ = n") < unit.source().index("n = 5")


def test_shapes_may_be_constants_of_the_function_around():
    def kernel(x):
        n = 4

        def g(j):
            t = kd.local.array(n, kd.float32)
            t[0] = j
            return t[0]

        x[0] = g(1)

    (use,) = make_unit(kernel).callees["g"].uses.values()
    assert use.static["shape"] == (4,)


def _two_functions(x):
    f = lambda v: v
    if x[0] > 0:
        f = lambda v: v + 1
    x[0] = f(1)


def _another_value(x):
    def f(v):
        return v

    f = 3
    x[0] = f


def _recursive(x):
    f = lambda v: f(v)
    x[0] = f(1)


def _as_value(x):
    f = lambda v: v
    g = f
    x[0] = g(1)


def _unnamed(x):
    x[0] = (lambda v: v)(1)


def _decorated(x):
    @kd.func
    def f(v):
        return v

    x[0] = f(1)


def _any_keywords(x):
    def f(**v):
        return v["a"]

    x[0] = f(a=1)


def _star_for_a_named_parameter(x):
    def f(a, b, *rest):
        return a

    t = (1, 2)
    x[0] = f(*t)


def _hides(x):
    n = 3
    f = lambda v: v + n

    def g(n):
        return f(n)

    x[0] = g(1)


def _missing_value(x):
    def f(v):
        if v > 0:
            return v

    x[0] = f(x[1])


@pytest.mark.parametrize(
    ("kernel", "message", "at"),
    [
        (_two_functions, "f is a function, and is given another value", "f = lambda v: v + 1"),
        (_another_value, "f is a function, and is given another value", "f"),
        (_recursive, "f calls itself: f → f", "f(v)"),
        (_as_value, "The function f is used without being called", "f"),
        (_unnamed, "A lambda has no name", "lambda v: v"),
        (_decorated, "f is defined in a function and has a decorator", "kd.func"),
        (_any_keywords, "f takes any keywords, in v", "v"),
        (_star_for_a_named_parameter, "* cannot be used in a call of f", "*t"),
        (_hides, "has another variable n", "f(n)"),
        (_missing_value, "f returns a value in line", "if v > 0:"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_refusals(kernel, message: str, at: str):
    error = refusal(kernel)
    assert message in error.what
    assert error.remedy
    assert shown(error).startswith(at) or error.where.line.strip().startswith(at)


def test_a_function_in_a_function_has_the_rest_in_a_tuple():
    @kd.kernel
    def kernel(x, out):
        n = 3

        def f(a, *rest, by=2):
            found = a * by
            for each in rest:
                found += each
            return found + n

        g = lambda *values: f(values[0], *values)
        t = x[0], x[1]
        out[0], out[1], out[2] = f(x[0]), f(x[0], x[1]), f(x[0], *t, by=5)
        out[3] = g(x[0], 2)

    out = np.zeros(4)
    with kd.use("cpu"):
        kernel[1, 1](np.array([10.0, 20.0]), out)
    assert out.tolist() == [23, 43, 83, 35]
    assert "f(" in kernel.typed_source("float64[::1], float64[::1]")
    assert kernel.ptx("float64[::1], float64[::1]", arch="sm_90")


# Other processes


def test_helpers_travel_with_their_kernel():
    factor = 3

    def local(v, *, w=2):
        return v * factor + w

    shift = lambda v: local(v) - 1

    @kd.kernel
    def kernel(x):
        x[kd.grid(1)] = shift(x[0]) + plain(1, z=1)

    sent = pickle.loads(pickle.dumps(kernel))  # noqa: S301 -- its own bytes
    x, y = np.full(1, 5.0), np.full(1, 5.0)
    with kd.use("cpu"):
        kernel.forall(1)(x)
        sent.forall(1)(y)
    assert x[0] == y[0] == 5 * 3 + 2 - 1 + 4
