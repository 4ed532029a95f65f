"""Calls that are repeated: the same to the bit as calls whose launches are planned anew."""

from __future__ import annotations

import inspect
import threading
import traceback
import types
import warnings
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.errors import (
    ArgumentValueError,
    ClosedResourceError,
    OutOfMemoryError,
    ReadOnlyArrayError,
)
from kerneldsl.repeating import recorded_calls as repeating
from stdlib_kernels import (
    arrays,
    compact,
    elementwise,
    histogram,
    linalg,
    movement,
    reduce,
    rows,
    scan,
    sort,
    stencil,
)
from stdlib_kernels.arrays import allocate
from stdlib_kernels.copying import copy_1d
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.reduce import folding
from tests.support.arrays import random_array, strided
from tests.support.extent import examples, full_beyond


class Case(NamedTuple):
    """A function, how many arrays it takes, and with which options."""

    function: Callable[..., Any]
    arrays: int = 1
    options: tuple[dict[str, Any], ...] = ({},)
    ndim: int | None = None


_AXES: tuple[dict[str, Any], ...] = ({}, {"axis": 0}, {"axis": -1}, {"axis": -1, "keepdims": True})
CASES = {
    "sum": Case(reduce.sum, options=(*_AXES, {"dtype": np.float64})),
    "argmax": Case(reduce.argmax, options=_AXES[:3]),
    "var": Case(reduce.var, options=({}, {"ddof": 1}, {"ddof": 1.0})),
    "cumsum": Case(scan.cumsum, options=({}, {"axis": 0}, {"axis": -1, "reverse": True})),
    "softmax": Case(rows.softmax, options=({}, {"axis": 0})),
    "transpose": Case(linalg.transpose, ndim=2),
    "gaussian": Case(
        stencil.gaussian_filter, options=({"sigma": 1.0}, {"sigma": (2.0, 0.5)}), ndim=2
    ),
    "uniform": Case(stencil.uniform_filter, options=({}, {"size": 4, "mode": "constant"})),
    "where": Case(elementwise.where, 3),
    "clip": Case(elementwise.clip, options=({"min": 0.0}, {"min": -0.0}, {"min": 0})),
}


def raw(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of the library without what repeats its calls."""
    return inspect.unwrap(function)


def bits(array: Any) -> tuple[Any, ...]:
    """Return what two results have in common that are the same to the bit."""
    found = array.copy_to_host() if isinstance(array, kd.DeviceArray) else np.asarray(array)
    return type(array), found.shape, found.dtype, found.tobytes()


def laid(to_kind: Callable[..., Any], values: np.ndarray, steps: tuple[int, ...]) -> Any:
    """Return an array of a kind with such steps in memory."""
    array = strided(values, steps)
    if to_kind is np.asarray:
        return array
    shape = [n * abs(step) for n, step in zip(values.shape, steps, strict=True)]
    made = kd.empty(tuple(shape), values.dtype)[tuple(slice(None, None, step) for step in steps)]
    made[...] = values
    return made


@st.composite
def calls(draw: Any) -> tuple[str, dict[str, Any], tuple[int, ...], tuple[int, ...], Any]:
    """Draw a call: function, options, shape, steps in memory, and where its result goes."""
    name = draw(st.sampled_from(sorted(CASES)))
    case = CASES[name]
    shape = draw(st.sampled_from([(70, 3), (3, 70)]) | st.just((70,)))
    shape = (70, 3) if case.ndim == 2 and len(shape) == 1 else shape
    steps = draw(st.sampled_from([(1, 1), (1, 1), (-1, 2)]))[: len(shape)]
    out = draw(st.sampled_from([None, None, "new", "overlapping", "first"]))
    return name, draw(st.sampled_from(case.options)), shape, steps, out


@pytest.mark.full
@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(drawn=st.lists(calls(), min_size=1, max_size=6), seed=st.integers(0, 2**31))
def test_repeated_calls_give_what_calls_give_that_are_planned_anew(to_kind, drawn, seed):
    rng = np.random.default_rng(seed)
    for name, options, shape, steps, place in drawn * 3:
        case = CASES[name]
        values = [random_array(rng, shape, np.float32) for _ in range(case.arrays)]
        results = []
        for function in (raw(case.function), case.function):
            given = [laid(to_kind, each, steps) for each in values]
            named = options
            if place is not None and (out := _out(function, given, options, place)) is not None:
                named = {**options, "out": out}
            found = function(*given, **named)
            assert named.get("out", found) is found
            results.append(bits(found))
        assert results[0] == results[1], (name, options, place)


def _out(function: Any, given: list[Any], options: dict[str, Any], place: str) -> Any:
    """Return where a result goes: new memory, memory behind an input's start, or an input."""
    like = raw(function)(*given, **options)
    fits = like.shape == given[0].shape and like.dtype == given[0].dtype
    if place == "first":
        return given[0] if fits else None
    if place == "overlapping" and fits:
        on_host = isinstance(given[0], np.ndarray)
        values = given[0] if on_host else given[0].copy_to_host()
        memory = np.resize(values, 2 * like.size)
        memory = memory if on_host else kd.to_device(memory)
        given[0] = memory[: like.size].reshape(like.shape)
        return memory[5 : like.size + 5].reshape(like.shape)
    made = np.full(like.shape, 3, like.dtype)
    return kd.to_device(made) if isinstance(given[0], kd.DeviceArray) else made


def counted(calls: list[Any]) -> Callable[..., Any]:
    """Return a function of the library that copies a vector, and lists when it plans."""

    @repeated_function
    def copied(x: Any, note: Any = None, *, out: Any = None) -> Any:
        calls.append(note)
        found = allocate(x, x.shape, x.dtype) if out is None else out
        repeating.launch(copy_1d, 1, 64, x, found, convert=_itself)
        return found

    return copied


def _itself(v: Any) -> Any:
    return v


@pytest.fixture
def cpu():
    """Run on the CPU."""
    with kd.use("cpu"):
        yield


@pytest.mark.parametrize("kind", [np.asarray, kd.to_device])
def test_a_call_is_planned_once_for_each_form_and_option(cpu, kind):
    planned: list[Any] = []
    copied = counted(planned)
    x = kind(np.arange(64.0))
    for _ in range(2):
        for note in (0, 0.0, -0.0, False, None, "0", (0,), (0.0,), np.int8(0), np.int64(0)):
            assert bits(copied(x, note))[3] == bits(x)[3]
        assert len(planned) == 10
    for other in (x[:32], x[::2], x[::-1], kind(np.arange(64, dtype=np.int64))):
        for _ in range(2):
            assert bits(copied(other))[3] == bits(other)[3]
    assert len(planned) == 14


def test_the_same_array_twice_is_not_two_arrays(cpu):
    x, y = (kd.to_device(np.full(70, v, np.float32)) for v in (1, 2))
    for _ in range(3):
        assert elementwise.where(x, x, x).copy_to_host().tolist() == [1] * 70
        assert elementwise.where(x, y, x).copy_to_host().tolist() == [2] * 70
        assert elementwise.where(x, x, y).copy_to_host().tolist() == [1] * 70


def test_calls_of_one_element_are_repeated(cpu, monkeypatch):
    """An index for each axis would make a scalar of an array, whose copy no call has in common."""
    functions = (reduce.argmax, reduce.max, reduce.sum)
    every = [(f, np.full(shape, 3.0)) for f in functions for shape in ((1,), (1, 1))]
    first = [function(x) for function, x in every]
    monkeypatch.setattr(folding, "arrange", None)
    assert [function(x) for function, x in every] == first == [0, 0, 3, 3, 3, 3]


def test_parts_of_one_array_that_overlap_are_told_apart(cpu):
    x = kd.to_device(np.arange(80, dtype=np.float32))
    for _ in range(2):
        for at in (0, 1, 10):
            found = elementwise.where(np.float32(0), x[:70], x[at : at + 70]).copy_to_host()
            assert found.tolist() == list(range(at, at + 70))


def test_results_have_memory_of_their_own(cpu):
    copied = counted([])
    x = kd.to_device(np.arange(64.0))
    found = [copied(x) for _ in range(4)]
    assert len({each.pointer for each in found}) == 4
    found[0].close()
    assert found[1].copy_to_host()[-1] == 63


@pytest.mark.parametrize("kind", [np.asarray, kd.to_device])
def test_no_array_is_kept(cpu, kind):
    copied = counted([])
    watched = []
    for n in range(3):
        x, out = kind(np.arange(64.0)), kind(np.zeros(64))
        found = copied(x, out=out) if n else copied(x)
        watched += [weakref.ref(each) for each in (x, out, found)]
        del x, out, found
    assert [each() for each in watched] == [None] * 9


def test_so_many_calls_are_remembered(cpu):
    planned: list[Any] = []
    copied = counted(planned)
    x = kd.to_device(np.arange(64.0))
    every = repeating._MAX_CALLS + 10
    for note in range(every):
        copied(x, note)
    cells = [each.cell_contents for each in copied.__closure__]
    repeated = next(each.__self__ for each in cells if isinstance(each, types.MethodType))
    assert len(repeated.calls) == repeating._MAX_CALLS
    copied(x, every - 1)
    assert len(planned) == every
    copied(x, 0)
    assert len(planned) == every + 1


@pytest.mark.full
def test_threads_repeat_the_same_calls(cpu):
    failures: list[Any] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(40):
            values = rng.integers(0, 99, 70 + seed % 2)
            x = kd.to_device(values)
            if int(reduce.sum(x).item()) != values.sum():
                failures.append(values)
            if scan.cumsum(x).copy_to_host().tolist() != values.cumsum().tolist():
                failures.append(values)
            if reduce.argmax(values) != values.argmax():
                failures.append(values)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failures


def test_errors_come_again(cpu):
    copied = counted([])
    x, out = kd.to_device(np.arange(64.0)), kd.to_device(np.zeros(64))
    for _ in range(3):
        copied(x, out=out)
    host = np.zeros(64)
    host.flags.writeable = False
    for _ in range(2):
        with pytest.raises(ReadOnlyArrayError):
            copied(np.arange(64.0), out=host)
    x.close()
    for _ in range(2):
        with pytest.raises(ClosedResourceError):
            copied(x, out=out)


def test_errors_of_repeated_calls_show_the_program_s_frames_alone(cpu):
    copied = counted([])
    x = kd.to_device(np.arange(64.0))
    for _ in range(3):
        copied(x)
    with kd.MemoryPool(limit=8), pytest.raises(OutOfMemoryError) as caught:
        copied(x)
    assert {each.filename for each in traceback.extract_tb(caught.tb)} == {__file__}


def test_names_of_arguments_are_no_values(cpu):
    x = np.ones((2, 3))
    for _ in range(2):
        assert reduce.sum(x, axis=0).tolist() == [2, 2, 2]
        with pytest.raises(TypeError, match="dtype is 'axis'"):
            reduce.sum(x, 0, "axis")


def test_arguments_that_do_not_fit_are_refused_where_the_call_is(cpu):
    copied = counted([])
    x = kd.to_device(np.arange(64.0))
    copied(x)
    for call in (lambda: copied(x, 1, 2), lambda: copied(x, other=1)):
        for _ in range(2):
            with pytest.raises(TypeError, match="copied\\(\\)") as caught:
                call()
            assert {each.filename for each in traceback.extract_tb(caught.tb)} == {__file__}


@pytest.mark.full
def test_warnings_come_again_where_the_call_is(cpu):
    x = kd.to_device(np.arange(70.0))
    for _ in range(3):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            reduce.var(x, ddof=70)
            reduce.mean(x[:0])
        assert [each.filename for each in caught] == [__file__] * 2


def test_memory_comes_from_the_pool_that_is_active(cpu):
    copied = counted([])
    x = kd.to_device(np.arange(64.0))
    found = [copied(x) for _ in range(2)]
    pool = kd.MemoryPool()
    with pool:
        found.append(copied(x))
    assert pool.stats().in_use_bytes == x.nbytes
    assert bits(found[2]) == bits(found[1]) == bits(found[0])


def test_numpy_arrays_are_computed_where_kernels_run_now():
    copied = counted([])
    x = np.arange(64.0)
    for _ in range(3):
        with kd.use("cpu"):
            assert copied(x)[-1] == 63
        with kd.use("null"):
            before = kd.memory_stats("null").allocation_count
            copied(x)
            assert kd.memory_stats("null").allocation_count > before


def test_streams_order_repeated_calls():
    copied = counted([])
    with kd.use("null"):
        x = kd.to_device(np.arange(64.0))
        stream = kd.Stream()
        for _ in range(40):
            copied(x)
        with stream:
            found = copied(x)
        assert found._owner._home is not None
        again = copied(found)  # waits for the stream, as a launch of such an array does
        assert again._owner._home is None
        kd.synchronize()


@pytest.mark.parametrize("function", [reduce.sum, sort.sort, stencil.gaussian_filter])
def test_a_capture_refuses_numpy_arrays(cpu, function):
    # A scalar was read before its launch, and a sort read the digits that were left.
    x, options = np.arange(50.0), (1,) if function is stencil.gaussian_filter else ()
    for _ in range(3):  # a repeated call, too
        want = function(x, *options)
    stream = kd.Stream()
    with stream.capture(), pytest.raises(kd.GraphError, match=r"Pass device arrays.*kd.to_device"):
        function(x, *options)
    assert np.array_equal(function(x, *options), want)


def test_a_capture_reads_weights_of_the_host(cpu):
    x, weights = np.arange(12.0).reshape(3, 4), np.ones((3, 3))
    device_x = kd.to_device(x)
    with kd.Stream().capture() as graph:
        found = stencil.correlate(device_x, weights)
    graph.launch()
    np.testing.assert_array_equal(found.copy_to_host(), stencil.correlate(x, weights))


def test_results_are_made_as_launches_take_them(cpu):
    copied = counted([])
    x = kd.to_device(np.arange(64.0))
    for _ in range(2):
        found = copied(x)
    assert found.code >= 0  # a launch that finds none reads the array through Python
    for _ in range(2):
        clipped = elementwise.clip(x, 1.0)
    assert clipped.code >= 0


def test_constants_that_are_gone_are_made_again(target, monkeypatch) -> None:
    upload, uploaded = arrays._uploaded, []
    upload.cache_clear()  # another test may have had the same

    def noted(*given: Any) -> kd.DeviceArray:
        uploaded.append(upload(*given))
        return uploaded[-1]

    noted.cache_clear = upload.cache_clear  # type: ignore[attr-defined]
    monkeypatch.setattr(arrays, "_uploaded", noted)
    x = kd.to_device(np.arange(12.0, dtype=np.float32).reshape(3, 4))
    expected = bits(stencil.gaussian_filter(x, 1.25))
    assert uploaded
    before = len(uploaded)
    assert bits(stencil.gaussian_filter(x, 1.25)) == expected
    assert len(uploaded) == before  # it was repeated
    for each in uploaded:
        each.close()
    assert bits(stencil.gaussian_filter(x, 1.25)) == expected


#: Of ten numbers, ten indices and ten flags, which differ in each call.
FEW: dict[str, Callable[[Any, Any, Any], Any]] = {
    "take": lambda x, at, flags: movement.take(x, at),
    "take with a mode": lambda x, at, flags: movement.take(x, at, mode="wrap"),
    "take_along_axis": lambda x, at, flags: movement.take_along_axis(x, at),
    "put_along_axis": lambda x, at, flags: movement.put_along_axis(x, at, x, combine="add"),
    "flip": lambda x, at, flags: movement.flip(x),
    "roll": lambda x, at, flags: movement.roll(x, 3),
    "repeat": lambda x, at, flags: movement.repeat(x, 2),
    "tile": lambda x, at, flags: movement.tile(x, (2, 2)),
    "pad": lambda x, at, flags: movement.pad(x, (2, 1), "reflect"),
    "concatenate": lambda x, at, flags: movement.concatenate((x, flags)),
    "stack": lambda x, at, flags: movement.stack((x, flags), 1),
    "sort": lambda x, at, flags: sort.sort(x),
    "argsort": lambda x, at, flags: sort.argsort(x, descending=True),
    "sort_pairs": lambda x, at, flags: sort.sort_pairs(x, at),
    "top_k": lambda x, at, flags: sort.top_k(x, 3),
    "searchsorted": lambda x, at, flags: sort.searchsorted(sort.sort(x), flags),
    "merge": lambda x, at, flags: sort.merge(sort.sort(x), sort.sort(flags)),
    "bincount": lambda x, at, flags: histogram.bincount(at),
    "weighted bincount": lambda x, at, flags: histogram.bincount(at, x),
    "compress": lambda x, at, flags: compact.compress(flags, x),
    "compress along an axis": lambda x, at, flags: compact.compress(flags, x, 0),
    "nonzero": lambda x, at, flags: compact.nonzero(flags.reshape(2, 5)),
    "flatnonzero": lambda x, at, flags: compact.flatnonzero(flags),
    "partition": lambda x, at, flags: compact.partition(flags, x),
    "run_length": lambda x, at, flags: compact.run_length(flags),
    "unique": lambda x, at, flags: compact.unique(flags, return_counts=True),
}


STEPS = (1, -2)
FEW_WITH_STEPS = [pytest.param(name, step) for name in FEW for step in STEPS]
QUICK_FEW = [pytest.param(name, STEPS[n % 2]) for n, name in enumerate([*FEW][::4])]


@pytest.mark.parametrize(("name", "step"), full_beyond(FEW_WITH_STEPS, QUICK_FEW))
def test_functions_whose_results_depend_on_elements(to_kind, rng, name, step):
    """Repeated calls give what calls give that are made once, whatever the elements are."""
    if step < 0 and name == "nonzero":
        pytest.skip("device arrays of such steps have no view of two axes")
    for turn in range(4):
        x = random_array(rng, (10,), np.float32)
        at, flags = rng.integers(0, 10 ** (turn + 1) if "count" in name else 10, (2, 10))
        flags = flags % (turn + 2)
        given = [laid(to_kind, each, (step,)) for each in (x, at, flags)]
        copies = [each.copy() for each in given]
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(repeating.Repeated, "call", lambda self, a, n: self._function(*a, **n))
            expected = FEW[name](*copies)
        found = FEW[name](*given)
        found, expected = (e if type(e) is tuple else (e,) for e in (found, expected))
        assert list(map(bits, found)) == list(map(bits, expected)), turn


def test_indices_are_looked_at_in_each_call(to_kind):
    x = to_kind(np.arange(10.0))
    for _ in range(3):
        movement.take(x, to_kind(np.arange(10)))
        with pytest.raises(ArgumentValueError, match="out of range"):
            movement.take(x, to_kind(np.arange(1, 11)))
    for _ in range(3):
        histogram.bincount(to_kind(np.array([1, 2])))
        with pytest.raises(ArgumentValueError, match="negative"):
            histogram.bincount(to_kind(np.array([1, -2])))


def test_options_that_are_arrays(cpu):
    """An option may be an array of rank 0, whose element counts and not its form."""
    x = np.arange(6.0).reshape(2, 3)
    for _ in range(2):
        for axis in range(2):
            np.testing.assert_array_equal(reduce.sum(x, np.array(axis)), x.sum(axis))
            np.testing.assert_array_equal(
                movement.roll(x, np.array(1 + axis)), np.roll(x, 1 + axis)
            )
        for width in (np.array([1, 2]), np.array([0, 3]), ((1, np.array(2)), (0, 1))):
            padded = movement.pad(x, width)
            np.testing.assert_array_equal(padded, np.pad(x, width))
