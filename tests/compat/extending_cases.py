"""Functions, attributes, methods and types that programs add by numba's extension interface."""

from __future__ import annotations

import numpy as np
import pytest
from kerneldsl.cuda.extending import (
    core_models,
    intrinsic,
    lower_builtin,
    make_attribute_wrapper,
    overload,
    overload_attribute,
    overload_method,
    register_jitable,
    register_model,
    type_callable,
)
from numba import errors, types

import kerneldsl as kd
from kerneldsl import cuda
from kerneldsl.cuda import cgutils, launchconfig
from tests.compat.both_targets import target  # noqa: F401


def launched(kernel, *args):
    """Return an array of four numbers that a kernel of one thread writes."""
    out = np.full(4, -7.0)
    cuda.jit(kernel)[1, 1](out, *args)
    return out.tolist()


def scaled(x, by=5):
    raise NotImplementedError


@overload(scaled)
def _scaled(x, by=5):
    if isinstance(x, types.Float):
        return lambda x, by=5: x * by
    if isinstance(x, types.Array):

        def whole(x, by=5):
            for i in range(x.size):
                x[i] *= by

        return whole
    return None


def by_target():
    raise NotImplementedError


@overload(by_target, target="generic")
def _by_any_target():
    return lambda: 1


@overload(by_target)
def _by_cuda():
    return lambda: 2


def through():
    raise NotImplementedError


@overload(through, inline="always")
def _through():
    def implementation():
        held = cuda.local.array(2, np.float32)
        held[0], held[1] = scaled(1.5), by_target()
        return held[0] + held[1]

    return implementation


def literal(x):
    raise NotImplementedError


@overload(literal, prefer_literal=True)
def _literal(x):
    if isinstance(x, types.IntegerLiteral):
        value = 1000 * x.literal_value
        return lambda x: value
    return lambda x: x


def place(x):
    raise NotImplementedError


@overload(place)
def _place(x):
    return lambda x: x + cuda.threadIdx.x


class TestFunctions:
    def test_types_decide_which_is_called(self, rng):
        def kernel(out, x):
            out[0] = scaled(2.0)
            out[1] = scaled(2.0, by=x[0])
            scaled(x)
            out[2] = x[1]

        a, b = rng.normal(size=2)
        x = np.array([a, b])
        assert launched(kernel, x) == [10.0, 2.0 * a, 5 * b, -7.0]
        assert x.tolist() == [5 * a, 5 * b]

    def test_they_use_the_language_of_kernels_and_call_others(self):
        def kernel(out):
            out[1] = through()

        assert launched(kernel) == [-7.0, 9.5, -7.0, -7.0]

    def test_values_of_constants(self):
        def kernel(out, n):
            out[0], out[1] = literal(3), literal(n)

        assert launched(kernel, 4)[:2] == [3000, 4]

    def test_one_that_python_may_call(self):
        @register_jitable
        def add(x, y):
            held = cuda.shared.array(1, np.int32)
            held[cuda.threadIdx.x] = y
            cuda.syncthreads()
            x[0] += held[0]

        def kernel(out):
            add(out, 2)
            out[1] = out[0]

        assert launched(kernel)[:2] == [-5, -5]

    def test_no_implementation(self):
        def kernel(out):
            out[0] = scaled(True)

        with pytest.raises(errors.TypingError, match="overloads of scaled do not take this call"):
            launched(kernel)

    def test_other_parameters(self):
        def other(x):
            raise NotImplementedError

        @overload(other)
        def _other(x):
            return lambda y: y

        def kernel(out):
            out[0] = other(1)

        with pytest.raises(errors.TypingError, match="implementation arguments differ"):
            launched(kernel)

    def test_other_parameters_that_are_not_compared(self):
        def other(x):
            raise NotImplementedError

        @overload(other, strict=False)
        def _other(x):
            return lambda: 1

        def kernel(out):
            out[0] = other(1)

        with pytest.raises(errors.TypingError, match="a function of other parameters"):
            launched(kernel)

    def test_the_rest_of_the_arguments(self):
        def count(x, *rest):
            raise NotImplementedError

        @overload(count)
        def _count(x, *rest):
            def implementation(x, *rest):
                return x + len(rest)

            return implementation

        def kernel(out):
            out[0], out[1] = count(5), count(5, 1, 2)

        assert launched(kernel)[:2] == [5, 7]

    def test_places_of_threads_are_given(self):
        def kernel(out):
            out[0] = place(1)

        with pytest.raises(errors.TypingError, match=r"uses kd\.threadIdx\.x.*give place the res"):
            launched(kernel)


@overload_attribute(types.Array, "total")
def _total(array):
    def implementation(array):
        found = 0.0
        for i in range(array.size):
            found += array[i]
        return found

    return implementation


@overload_method(types.Array, "bump")
def _bump(array, by=1):
    def implementation(array, by=1):
        before = array[0]
        array[0] = before + by
        return before

    return implementation


class TestMembers:
    def test_an_attribute_reads_what_was_stored(self, rng):
        def kernel(out, x):
            out[0] = x.total
            x[0] += 1
            out[1] = x.total

        x = rng.normal(size=3)
        first = x[0] + x[1] + x[2]
        found = launched(kernel, x.copy())
        assert np.allclose(found[:2], [first, first + 1])

    def test_a_method_whose_result_is_not_used_acts(self):
        def kernel(out, x):
            x.bump()
            x.bump(by=10)
            out[0] = x[0]
            out[1] = x.bump()

        x = np.zeros(1, np.int32)
        assert launched(kernel, x)[:2] == [11, 11]
        assert x[0] == 12


@intrinsic
def exchanged(context, array):
    """Add 1 to the first element, and return what it was."""

    def codegen(context, builder, signature, args):
        address = context.make_array(signature.args[0])(context, builder, args[0]).data
        before = builder.load(address)
        builder.store(builder.fadd(before, before.type(1.0)), address)
        return before

    return types.float64(array), codegen


class Interval:
    """Two numbers."""


class IntervalType(types.Type):
    """Numba's type of it."""


interval = IntervalType("Interval")


@type_callable(Interval)
def _type_interval(context):
    return lambda low, high: interval


@register_model(IntervalType)
class IntervalModel(core_models.StructModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, [("low", types.float64), ("high", types.float64)])


make_attribute_wrapper(IntervalType, "low", "low")
make_attribute_wrapper(IntervalType, "high", "high")


@lower_builtin(Interval, types.Float, types.Float)
def _make_interval(context, builder, signature, args):
    made = cgutils.create_struct_proxy(signature.return_type)(context, builder)
    made.low, made.high = args
    return made._getvalue()


class Tagged:
    """A number and its tag."""


class TaggedType(types.Type):
    """Numba's type of it; a float64 is eight bytes after an int8."""


tagged = TaggedType("Tagged")
type_callable(Tagged)(lambda context: lambda tag, value: tagged)


@register_model(TaggedType)
class TaggedModel(core_models.StructModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, [("tag", types.int8), ("value", types.float64)])


make_attribute_wrapper(TaggedType, "tag", "tag")
make_attribute_wrapper(TaggedType, "value", "value")


@lower_builtin(Tagged, types.Integer, types.Float)
def _make_tagged(context, builder, signature, args):
    made = cgutils.create_struct_proxy(signature.return_type)(context, builder)
    made.tag = context.cast(builder, args[0], signature.args[0], types.int8)
    made.value = args[1]
    return made._getvalue()


def exchange_through_shared_memory(tags, values, out):
    shared = cuda.shared.array(33, dtype=tagged)
    own = cuda.local.array((2, 3), dtype=tagged)
    i = cuda.threadIdx.x
    for j in range(3):
        own[1, j] = Tagged(tags[i] - j, values[i] * (j + 1))
    shared[i] = own[1, 2]
    cuda.syncthreads()
    other = shared[(i * 7 + 5) % 33]
    out[i, 0] = other.tag
    out[i, 1] = other.value
    out[i, 2] = own[1, 1].tag
    out[i, 3] = own[1, 0].value


class TestArraysOfStructs:
    def test_local_and_shared_memory(self, rng):
        tags = rng.integers(-125, 128, 33).astype(np.int8)
        values = rng.standard_normal(33)
        values[[3, 17]] = np.nan, -0.0
        out = np.full((33, 4), -7.0)
        cuda.jit(exchange_through_shared_memory)[1, 33](tags, values, out)
        at = (np.arange(33) * 7 + 5) % 33
        wanted = [tags[at] - 2.0, values[at] * 3, tags - 1.0, values]
        np.testing.assert_array_equal(out, np.stack(wanted, axis=1))
        np.testing.assert_array_equal(np.signbit(out[:, 3]), np.signbit(values))

    def test_types_that_programs_see(self):
        @cuda.jit(types.void(tagged[::1]))
        def swap(x):
            own = cuda.local.array(1, dtype=tagged)
            own[0] = x[0]
            x[0] = x[1]
            x[1] = own[0]

        (overload,) = swap.overloads.values()
        assert overload.argument_types == (tagged[::1],)
        assert overload._type_annotation.typemap["own"].dtype is tagged

    def test_two_types_of_one_name(self):
        class IntervalType(types.Type):
            """Another type with the name and the members of the first."""

        other = IntervalType("Interval")
        register_model(IntervalType)(IntervalModel)
        make_attribute_wrapper(IntervalType, "high", "low")
        make_attribute_wrapper(IntervalType, "low", "high")

        @intrinsic
        def mirrored(context, x):
            return other(interval), lambda context, builder, signature, args: args[0]

        def kernel(out, x):
            first = cuda.local.array(1, dtype=interval)
            second = cuda.local.array(2, dtype=other)
            first[0] = Interval(x[0], x[1])
            second[1] = mirrored(first[0])
            out[0], out[1] = first[0].low, second[1].low

        assert launched(kernel, np.array([3.0, 4.0]))[:2] == [3, 4]

    def test_structs_of_more_than_numbers_are_refused(self):
        class PairType(types.Type):
            pass

        @register_model(PairType)
        class PairModel(core_models.StructModel):
            def __init__(self, manager, kind):
                super().__init__(manager, kind, [("inner", tagged), ("n", types.int32)])

        pair = PairType("Pair")

        @cuda.jit
        def kernel(out):
            own = cuda.local.array(1, dtype=pair)
            out[0] = own.size

        with pytest.raises(errors.TypingError, match="Pair is not a dtype that it supports"):
            kernel[1, 1](np.zeros(1))


class TestOwnCode:
    def test_an_intrinsic_whose_result_is_not_used_acts(self):
        def kernel(out):
            exchanged(out)
            exchanged(out)
            out[1] = out[0]
            out[2] = exchanged(out)

        assert launched(kernel) == [-4, -5, -5, -7]

    def test_a_value_of_a_type_of_the_program(self, rng):
        def kernel(out, x):
            made = Interval(x[0], x[1])
            out[0], out[1] = made.high, made.low

        x = rng.normal(size=2)
        assert launched(kernel, x)[:2] == [x[1], x[0]]

    def test_an_intrinsic_that_returns_nothing_where_it_declares_a_value(self):
        @intrinsic
        def empty(context, x):
            return types.int32(types.int32), lambda context, builder, signature, args: None

        def kernel(out):
            empty(1)

        with pytest.raises(errors.LoweringError, match="non-void function returns None"):
            launched(kernel)


def test_types_of_variables():
    @cuda.jit("void(int32[::1])")
    def kernel(x):
        held = cuda.local.array(3, np.float32)
        held[0] = x[0]
        x[0] = held[0]

    (each,) = kernel.overloads.values()
    assert each._type_annotation.typemap["held"].dtype == types.float32


DOUBLED = cuda.PTXSource("""
.version 7.0
.target sm_70
.address_size 64
.visible .func (.param .b32 status) doubled_elsewhere(.param .b64 result, .param .b32 x)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [result];
    ld.param.u32 %r1, [x];
    shl.b32 %r1, %r1, 1;
    st.u32 [%rd1], %r1;
    mov.u32 %r2, 0;
    st.param.b32 [status], %r2;
    ret;
}
""")
doubled_elsewhere = cuda.declare_device("doubled_elsewhere", "int32(int32)", link=DOUBLED)


def doubled(x):
    raise NotImplementedError


@overload(doubled)
def _doubled(x):
    return lambda x: doubled_elsewhere(x)


def test_linked_code(target):  # noqa: F811
    @cuda.jit
    def kernel(out, x):
        out[cuda.grid(1)] = doubled(x[cuda.grid(1)]) + doubled_elsewhere(1) * 100

    @cuda.jit
    def only_by_overload(out, x):
        out[cuda.grid(1)] = doubled(x[cuda.grid(1)])

    x, out = np.arange(4, dtype=np.int32), np.zeros(4, np.int32)
    for each, more in ((kernel, 200), (only_by_overload, 0)):
        text, _ = cuda.compile_ptx(each.py_func, "(int32[::1], int32[::1])")
        assert "shl.b32" in text
        assert "doubled_elsewhere" in text
        if target == "cpu":
            with pytest.raises(kd.TargetUnavailableError, match="doubled_elsewhere has code for a"):
                each[1, 4](out, x)
            assert not out.any()
        else:
            each[1, 4](out, x)
            np.testing.assert_array_equal(out, 2 * x + more)


def applied(function, x, *, times=2):
    raise NotImplementedError


@overload(applied)
def _applied(function, x, *, times=2):
    if not isinstance(function, types.Dispatcher) or isinstance(x, types.Array):
        return None

    def apply(function, x, *, times=2):
        for _ in range(times):
            x = function(x)
        return x

    return apply


@cuda.jit(device=True)
def tripled(x):
    return 3 * x


@cuda.jit(device=True)
def with_defaults(x, y=10, *rest):
    return x + y + len(rest)


def applied_to_all(function, *values):
    raise NotImplementedError


@overload(applied_to_all)
def _applied_to_all(function, *values):
    return lambda function, *values: function(*values)


class TestFunctionsAsArguments:
    def test_device_functions_and_those_of_the_kernel(self, target):  # noqa: F811
        def kernel(out, x):
            step = 1.5

            def moved(v):
                return v + step

            out[0] = applied(tripled, x[0])
            out[1] = applied(moved, x[0], times=3)
            out[2] = applied(x=x[0], function=lambda v: v * v)
            out[3] = applied(tripled, applied(moved, x[0]))

        x = 0.25
        assert launched(kernel, np.array([x])) == [9 * x, x + 4.5, x**4, 9 * (x + 3)]

    def test_their_default_values_and_the_rest(self, target):  # noqa: F811
        def kernel(out, x):
            step = 1.5

            def moved(v, by=step, *rest, scale=2):
                return (v + by) * scale + len(rest)

            out[0] = applied(with_defaults, x[0], times=1)
            out[1] = applied(moved, x[0], times=1)
            out[2] = applied(lambda v, k=3, *, m=step: v * k + m, x[0], times=1)
            out[3] = applied_to_all(with_defaults, x[0], x[1], x[2], x[0])

        x, y, z = 0.25, 2.0, 4.0
        expected = [x + 10, (x + 1.5) * 2, x * 3 + 1.5, x + y + 2]
        assert launched(kernel, np.array([x, y, z])) == expected

    def test_all_arguments_in_a_tuple(self, target):  # noqa: F811
        def kernel(out, x):
            step = 1.5

            def joined(*values):
                found = step
                for each in values:
                    found += each
                return found

            out[0] = applied_to_all(joined, x[0], x[1], x[2])
            out[1] = applied_to_all(joined)
            out[2] = applied_to_all(lambda v, k=3: v * k, x[1])
            out[3] = applied_to_all(lambda *v: v[1], *(x[0], x[1]))

        x, y, z = 0.25, 2.0, 4.0
        assert launched(kernel, np.array([x, y, z])) == [x + y + z + 1.5, 1.5, 3 * y, y]

    def test_more_arguments_than_a_function_takes_are_refused(self):
        def kernel(out, x):
            out[0] = applied_to_all(lambda v, k=3: v * k, x[0], x[0], x[0])

        with pytest.raises(errors.TypingError, match="takes 2 arguments, and 3 were given"):
            launched(kernel, np.ones(1))

    def test_a_function_that_reads_a_variable_is_refused(self):
        def kernel(out, x):
            step = x[0]

            def moved(v):
                return v + step

            out[0] = applied(moved, x[0])

        with pytest.raises(errors.TypingError, match="moved is an argument, and it reads step is"):
            launched(kernel, np.ones(1))

    def test_a_function_that_needs_its_block_is_refused(self):
        @cuda.jit(device=True)
        def shared(x):
            return x + cuda.shared.array(4, np.float64)[0]

        def kernel(out):
            out[0] = applied(shared, 1.0)

        with pytest.raises(errors.TypingError, match=r"applied uses kd\.shared\.array, which"):
            launched(kernel)


def block_of_the_launch():
    raise NotImplementedError


@overload(block_of_the_launch)
def _block_of_the_launch():
    config = launchconfig.ensure_current_launch_config()
    config.dispatcher.mark_launch_config_sensitive()
    block = config.blockdim[0]
    return lambda: block


def test_code_that_depends_on_the_launch():
    @cuda.jit
    def kernel(out):
        out[cuda.grid(1)] = block_of_the_launch()

    out = np.zeros(4)
    for block in (2, 2, 4, 1, 2):
        for _ in range(40):
            kernel[1, block](out)
        assert out[:block].tolist() == [block] * block
