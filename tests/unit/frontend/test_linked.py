"""The normal form of linked functions: nothing is concluded from their Python bodies."""

from __future__ import annotations

import pytest

import kerneldsl as kd
from kerneldsl.errors import UnsupportedConstructError
from kerneldsl.frontend.effects.effects import written_parameters
from kerneldsl.frontend.fingerprint import fingerprint, identify
from kerneldsl.frontend.normalize import make_unit
from tests.support.linked_code import PTX
from tests.support.read_kernels import barriers_of

_EVEN = "bool(int64)"


def _even(**options):
    @kd.func(link=PTX, signature=_EVEN, **options)
    def is_even(n):
        return n % 2 == 0

    return is_even


def test_the_normal_form_has_the_declared_types():
    @kd.func(link=PTX, signature="void(float64[::1], int64, float64)")
    def add_to(p, i, v):
        i = i + 1
        p[i] += v

    def kernel(x):
        add_to(x, 0, 1)

    (callee,) = make_unit(kernel).callees.values()
    assert callee.source() == (
        "def add_to(p, i, v):\n"
        "    kd_linked_array_0(p)\n"
        "    i = kd_linked_number_1(i)\n"
        "    kd_given_i = i\n"
        "    v = kd_linked_number_2(v)\n"
        "    i = i + 1\n"
        "    p[i] += v"
    )
    assert callee.uses["kd_linked_array_0"].static["dtype"] == "float64"


def test_every_array_may_be_written():
    @kd.func(link=PTX, signature="void(int64[::1], int64[::1])")
    def swap(p, q):
        pass

    def kernel(x, y, z):
        swap(x, y)
        z[0] = 1

    assert written_parameters(make_unit(kernel)) == {0, 1, 2}


@pytest.mark.parametrize("is_pure", [False, True])
def test_a_barrier_after_a_test_of_a_result(is_pure):
    is_even = _even(pure=is_pure)

    def kernel(n, x):
        if is_even(n):
            kd.syncthreads()
        x[0] = 1

    problems = barriers_of(kernel, "int64, int64[::1]").problems
    assert bool(problems) is not is_pure
    assert not any(problem.is_provable for problem in problems)


def test_a_pure_function_of_what_varies_varies():
    """The Python body does not look at its argument, and the linked code may."""

    @kd.func(link=PTX, signature=_EVEN, pure=True)
    def is_even(n):
        n = 0
        return n == 0

    def kernel(x):
        if is_even(kd.threadIdx.x):
            kd.syncthreads()
        x[0] = 1

    assert barriers_of(kernel, "int64[::1]").problems


def test_words_of_threads_are_refused():
    @kd.func(link=PTX, signature=_EVEN)
    def is_even(n):
        return kd.threadIdx.x % 2 == 0

    def kernel(x):
        x[0] = is_even(0)

    with pytest.raises(UnsupportedConstructError) as caught:
        make_unit(kernel)
    assert "is_even is linked, and its Python body uses kd.threadIdx.x" in str(caught.value)
    assert "threadIdx" in caught.value.where.line


def test_words_of_groups_are_refused():
    @kd.func(link=PTX, signature=_EVEN)
    def waits(n):
        kd.syncthreads()
        return n > 0

    @kd.func(link=PTX, signature=_EVEN)
    def votes(n):
        return kd.all_sync(-1, n > 0)

    @kd.func(link=PTX, signature=_EVEN)
    def shares(n):
        return kd.shared.array(4, kd.int32)[0] > n

    def one(x):
        x[0] = waits(0)

    def two(x):
        x[0] = votes(0)

    def three(x):
        x[0] = shares(0)

    for kernel in (one, two, three):
        with pytest.raises(UnsupportedConstructError, match="is linked, and its Python body uses"):
            make_unit(kernel)


def test_a_body_and_a_signature_that_disagree():
    @kd.func(link=PTX, signature=_EVEN)
    def is_even(n):
        pass

    @kd.func(link=PTX, signature="void(int64)")
    def swap(n):
        return n

    def one(x):
        x[0] = is_even(0)

    def two(x):
        swap(0)

    with pytest.raises(UnsupportedConstructError, match="returns nothing"):
        make_unit(one)
    with pytest.raises(UnsupportedConstructError, match="swap returns a value"):
        make_unit(two)


def test_one_body_may_have_several_codes():
    def body(n):
        return n % 2 == 0

    one = kd.func(link=PTX, signature=_EVEN, name="is_even")(body)
    two = kd.func(link=PTX, signature=_EVEN, name="is_odd")(body)

    def kernel(x):
        x[0] = one(0) + two(0)

    symbols = {code.symbol for code in make_unit(kernel).linked_functions().values()}
    assert symbols == {"is_even", "is_odd"}


def test_the_fingerprint_knows_the_code():
    def unit(link=PTX, **options):
        @kd.func(link=link, signature=options.pop("signature", _EVEN), **options)
        def is_even(n):
            return n % 2 == 0

        def kernel(x):
            x[0] = is_even(0)

        return make_unit(kernel)

    prints = [
        fingerprint(each)
        for each in (
            unit(),
            unit(PTX + b"\n"),
            unit(pure=True),
            unit(name="other"),
            unit(signature="bool(int32)"),
        )
    ]
    assert len(set(prints)) == len(prints)
    assert fingerprint(unit()) == prints[0]
    assert identify(unit()) == identify(unit())


def test_operations_of_groups_are_pure():
    def add(a, b):
        return a + b

    def total(function):
        def kernel(x):
            x[0] = kd.block.reduce(x[0], function)

        return make_unit(kernel)

    linked = {"link": PTX, "signature": "float32(float32, float32)", "name": "weigh"}
    assert total(kd.func(**linked, pure=True)(add)).linked_functions()
    with pytest.raises(UnsupportedConstructError, match="code that is linked, add") as caught:
        total(kd.func(**linked)(add))
    assert "pure=True" in str(caught.value)
