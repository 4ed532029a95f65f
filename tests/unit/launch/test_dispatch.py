"""Kernels as objects: the face, specializations, captured constants, threads, inspection."""

from __future__ import annotations

import functools
import logging
import multiprocessing
import threading
import time

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.contract import Artifact, Compiler
from tests.support.fake_target import FakeTarget, installed
from tests.support.read_kernels import barriers_of

FACTOR = 3


@pytest.fixture(autouse=True)
def fake():
    with installed(FakeTarget()) as target, kd.use("fake"):
        yield target


@kd.kernel
def axpy(a, x, y, out):
    """out = a x + y."""
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@kd.func
def twice(value, offset=1):
    return 2 * value + offset


X = np.arange(8.0)


@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize(
    "spaces", [(), (kd.Space(block=[32], items=[1]), kd.Space(block=[64], items=[2]))]
)
def test_a_function_that_wraps_a_kernel_becomes_a_kernel_of_its_own(between, spaces):
    """``functools.wraps`` copies whatever the other kernel has in its dictionary."""

    def add(x, *, items=1):
        i = kd.grid(1)
        if i < x.size:
            x[i] += 1

    def add_more(x, *, items=1):
        i = kd.grid(1)
        if i < x.size:
            x[i] += 100

    def plain(x):
        pass

    options, its_options = [{"space": space} for space in spaces] or ({}, {})
    if not spaces:  # a kernel without a space has no keyword-only parameters

        def add(x):
            x[kd.grid(1)] += 1

        def add_more(x):
            x[kd.grid(1)] += 100

    add.tag, add_more.other_tag = "of the function", "its own"
    first = kd.kernel(**options)(add)
    x = np.zeros(8)
    with kd.use("cpu"):
        first.forall(8)(x)
        if spaces:
            first.member()
        inner = functools.wraps(first)(plain) if between else first
        second = kd.kernel(**its_options)(functools.wraps(inner)(add_more))
        second.forall(8)(x)
    assert (x == 101).all()
    assert second._dispatcher is not first._dispatcher
    assert second.other_tag == "its own"
    if spaces:
        assert second.space is spaces[1]
        assert second.member() is not first.member()
    assert second.__name__ == "add"


def test_a_kernel_that_is_made_anew_in_its_place_runs_the_new_function():
    def add(x):
        x[kd.grid(1)] += 1

    def add_more(x):
        x[kd.grid(1)] += 100

    kernel = kd.kernel(add)
    x = np.zeros(8)
    with kd.use("cpu"):
        kernel.forall(8)(x)
        kernel.__init__(add_more, kernel.options)
        kernel.forall(8)(x)
    assert (x == 101).all()


def test_a_kernel_wraps_its_function():
    assert axpy.__name__ == "axpy"
    assert axpy.__doc__ == "out = a x + y."
    assert axpy.__module__ == __name__
    assert axpy.__wrapped__ is axpy.function
    assert axpy.__kerneldsl_kernel__
    assert repr(axpy).startswith(f"<kernel {__name__}.axpy(a, x, y, out)")
    assert "over (8,)" in repr(axpy.forall(8))


def test_device_functions_are_callable_from_python():
    assert twice(3) == 7
    assert twice(3, offset=0) == 6
    assert twice.__kerneldsl_function__ is twice.function
    assert kd.func(twice) is twice
    assert "device function" in repr(twice)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), "0 arguments: missing 'a', 'x', 'y', 'out'"),
        ((1,), "given 1 argument: missing 'x', 'y', 'out'"),
        ((1, X), "given 2 arguments: missing 'y', 'out'"),
        ((1, X, X, X, X, 2), "2 too many, from argument 5 on"),
    ],
)
def test_wrong_number_of_arguments(args, words):
    with pytest.raises(kd.ArgumentTypeError, match=words):
        axpy.forall(8)(*args)


def test_a_compile_time_parameter_by_position():
    @kd.kernel
    def fill(x, *, value=3):
        x[kd.grid(1)] = value

    with pytest.raises(kd.ArgumentTypeError, match=r"1 too many.*Give value by name: value=…"):
        fill.forall(8)(X, 4)


def test_a_missing_argument_beside_named_ones():
    with pytest.raises(kd.ArgumentTypeError, match="given 3 arguments: missing 'x'"):
        axpy.forall(8)(1, y=X, out=X)


def test_one_specialization_for_each_combination(fake):
    kernel = kd.kernel(axpy.function)
    out = np.zeros(8)
    for _ in range(3):
        kernel.forall(8)(2.0, X, X, out)
        kernel.forall(5)(3.0, X, X, out)
    assert len(fake.compiled) == 1
    kernel[1, 8](2.0, X, X, out)
    kernel[2, 4](2.0, X, X, out)
    assert len(fake.compiled) == 2
    kernel[1, 8](2, X, X, out)
    kernel.forall(8)(2.0, X[::2], X, out)
    assert len(fake.compiled) == 4
    with kd.use("fake:1"):
        kernel.forall(8)(2.0, X, X, out)
    assert len(fake.compiled) == 4, "the second device has the same architecture"
    assert [s.forall_ndim for s in kernel.specializations] == [1, None, None, 1]
    assert kernel.specializations[0].signature == (
        "float64, float64[::1], float64[::1], float64[::1]"
    )


def test_one_specialization_for_each_rank_of_the_extent(fake):
    @kd.kernel
    def anywhere(x):
        x[0] = 1

    for _ in range(2):
        for extent in ((8,), (2, 4), (2, 2, 2), (4, 2)):
            anywhere.forall(*extent)(X)
    assert len(fake.compiled) == 3
    assert [s.forall_ndim for s in anywhere.specializations] == [1, 2, 3]


def test_the_block_counts_where_the_target_compiles_for_it(fake):
    fake.block_matters = True
    kernel = kd.kernel(axpy.function)
    for block in (4, 8, 4):
        kernel[2, block](2.0, X, X, np.zeros(8))
    assert [s.block_dim for s in fake.compiled] == [(4, 1, 1), (8, 1, 1)]


def test_captured_constants_are_never_stale(fake, monkeypatch):
    @kd.kernel
    def scale(x):
        x[kd.grid(1)] *= FACTOR

    def captured():
        scale.forall(8)(np.zeros(8))
        return fake.launches and fake.compiled[-1].unit.captured[0].value

    assert captured() == 3
    monkeypatch.setitem(globals(), "FACTOR", 5)
    assert captured() == 5
    assert len(fake.compiled) == 2
    monkeypatch.setitem(globals(), "FACTOR", 3)
    scale.forall(8)(np.zeros(8))
    assert len(fake.compiled) == 2, "the first specialization serves again"
    monkeypatch.delitem(globals(), "FACTOR")
    with pytest.raises(kd.KernelError, match="FACTOR"):
        scale.forall(8)(np.zeros(8))


def test_closure_values_are_captured(fake):
    width = 4

    @kd.kernel
    def fill(x):
        x[kd.grid(1)] = width

    fill.forall(1)(np.zeros(8))
    width = 6
    fill.forall(1)(np.zeros(8))
    assert [s.unit.captured[0].value for s in fake.compiled] == [4, 6]


def test_eight_threads_compile_once_and_do_not_wait_for_other_kernels(fake):
    slow, quick = kd.kernel(axpy.function), kd.kernel(axpy.function)
    quick.forall(8)(2.0, X, X, np.zeros(8))
    fake.compile_seconds = 0.3
    compile_, is_launched, was_launched = fake.compile, threading.Event(), []

    def compile_after_the_launch(specialization):
        was_launched.append(is_launched.wait(60))
        return compile_(specialization)

    fake.compile = compile_after_the_launch
    barrier = threading.Barrier(9)

    def launch():
        with kd.use("fake"):
            barrier.wait()
            slow.forall(8)(2, X, X, np.zeros(8))

    def launch_quick():
        with kd.use("fake"):
            barrier.wait()
            quick.forall(8)(2.0, X, X, np.zeros(8))
            is_launched.set()

    threads = [threading.Thread(target=launch) for _ in range(8)]
    threads.append(threading.Thread(target=launch_quick))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fake.compiled) == 2
    assert len(fake.launches) == 10
    assert was_launched == [True]


def test_a_child_forked_during_a_compilation_compiles_for_itself(fake):
    kernel = kd.kernel(axpy.function)
    is_compiling = threading.Event()
    compile_ = fake.compile

    def slow(specialization):
        is_compiling.set()
        time.sleep(0.5)
        return compile_(specialization)

    fake.compile = slow

    def launch():
        with kd.use("fake"):
            kernel.forall(8)(2.0, X, X, np.zeros(8))

    thread = threading.Thread(target=launch)
    thread.start()
    is_compiling.wait()
    child = multiprocessing.get_context("fork").Process(target=launch)
    child.start()
    child.join(20)
    if child.is_alive():
        child.kill()
    thread.join()
    assert child.exitcode == 0


def test_a_failed_compilation_is_tried_again(fake, monkeypatch):
    kernel = kd.kernel(axpy.function)
    compile_ = fake.compile

    def fail(specialization):
        raise kd.CompileError("no")

    monkeypatch.setattr(fake, "compile", fail)
    with kd.fallback("never"), pytest.raises(kd.CompileError):
        kernel.forall(8)(2.0, X, X, np.zeros(8))
    monkeypatch.setattr(fake, "compile", compile_)
    kernel.forall(8)(2.0, X, X, np.zeros(8))
    assert len(fake.launches) == 1


def test_options_reach_the_specialization(fake):
    kernel = kd.kernel(
        fastmath=True,
        contract=False,
        debug=True,
        lineinfo=True,
        wraparound=False,
        max_registers=32,
        launch_bounds=(128, 2),
    )(axpy.function)
    kernel.forall(8)(2.0, X, X, np.zeros(8))
    options = fake.compiled[-1].options
    assert (options.fastmath, options.contract, options.debug) == (True, False, True)
    assert (options.lineinfo, options.wraparound) == (True, False)
    assert (options.max_registers, options.launch_bounds) == (32, (128, 2))


@pytest.mark.parametrize(
    "options",
    [
        {"fastmath": 1},
        {"debug": "yes"},
        {"max_registers": 8},
        {"max_registers": 32.0},
        {"launch_bounds": 0},
        {"launch_bounds": (1, 2, 3, 4)},
        {"block": 0},
        {"signature": "float31"},
    ],
)
def test_bad_options(options):
    with pytest.raises(kd.KernelError, match=next(iter(options)) if "sig" not in options else ""):
        kd.kernel(**options)


def test_unknown_options_are_pythons_error():
    with pytest.raises(TypeError, match="fastmaths"):
        kd.kernel(fastmaths=True)


@pytest.mark.parametrize("method", [staticmethod(axpy.function), classmethod(axpy.function)])
def test_methods(method):
    with pytest.raises(
        kd.UnsupportedConstructError, match=r"Write @staticmethod above @kd\.kernel"
    ):
        kd.kernel(method)


@pytest.mark.parametrize("thing", [3, len, type])
def test_what_is_no_function(thing):
    with pytest.raises(kd.UnsupportedConstructError):
        kd.kernel(thing)


def test_the_environment_switches_debug_on(monkeypatch):
    monkeypatch.setenv("KERNELDSL_DEBUG", "1")
    assert kd.kernel(axpy.function).options.compile.debug
    assert not kd.kernel(debug=False)(axpy.function).options.compile.debug
    monkeypatch.setenv("KERNELDSL_DEBUG", "0")
    assert not kd.kernel(axpy.function).options.compile.debug


SIGNATURE = "void(float32, float64[:], float64[::1], float64[:])"


def test_an_explicit_signature_converts_scalars_and_layouts(fake):
    kernel = kd.kernel(SIGNATURE)(axpy.function)
    for a in (2, 2.5, True, np.int8(3), np.float64(1e300)):
        kernel.forall(8)(a, X, X, np.zeros((8, 2))[:, 0])
    assert len(fake.compiled) == 1
    values = [launch[2]["a"] for launch in fake.launches]
    assert values == [2.0, 2.5, 1.0, 3.0, np.inf]
    last = fake.launches[-1][2]
    assert (last["x.strides[0]"], last["out.strides[0]"]) == (8, 16)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((1j, X, X, X), "'a' was given complex128"),
        ((1, X.astype("f4"), X, X), r"'x' was given float32\[::1\]"),
        ((1, X, np.zeros(16)[::2], X), r"'y' was given float64\[:\]"),
        ((1, X.reshape(2, 4), X, X), "'x'"),
        ((1, 2, X, X), "'x' was given int64"),
    ],
)
def test_an_explicit_signature_refuses(args, words):
    kernel = kd.kernel(signature=SIGNATURE)(axpy.function)
    with pytest.raises(kd.ArgumentTypeError, match=words):
        kernel.forall(8)(*args)


def test_ints_of_a_signature_must_hold_the_value():
    @kd.kernel("int8, uint64")
    def count(a, b):
        kd.grid(1)

    count.forall(1)(127, 2)
    with pytest.raises(kd.ArgumentValueError, match="-128 to 127"):
        count.forall(1)(128, 2)
    with pytest.raises(kd.ArgumentValueError, match="0 to"):
        count.forall(1)(1, -1)
    with pytest.raises(kd.ArgumentTypeError, match="lose its meaning"):
        count.forall(1)(1.5, 1)


def test_a_signature_of_the_wrong_length():
    kernel = kd.kernel("int32")(axpy.function)
    with pytest.raises(kd.ArgumentTypeError, match="4 parameters"):
        kernel.forall(8)(1, X, X, X)


def test_overlapping_arguments_choose_the_barrier_problems(fake, monkeypatch):
    @kd.kernel
    def walk(flags, out):
        while flags[0] != 0:
            out[kd.threadIdx.x] = 1.0
            kd.syncthreads()

    facts = barriers_of(walk.function, "float64[::1], float64[::1]")
    assert facts.problems == ()
    assert facts.problems_if_overlapping != ()
    checked = []
    monkeypatch.setattr(Artifact, "barriers", facts)
    monkeypatch.setattr(Compiler, "check_barriers", lambda _, problems: checked.append(problems))
    base = np.zeros(8)
    walk[1, 4](np.zeros(2), base)
    assert not checked
    for _ in range(2):
        walk[1, 4](base[:2], base)
    assert checked == [facts.problems_if_overlapping] * 2
    assert len(fake.compiled) == 1


def test_an_architecture_is_that_of_the_code_shown():
    """Not a label on the code of another machine."""

    @kd.kernel
    def double(x):
        x[kd.grid(1)] *= 2

    signature = "float32[::1]"
    with kd.use("cpu"):
        shown = double.artifact(signature, arch="sm_90")
        assert shown.specialization.arch == "sm_90"
        assert ".target sm_90" in shown.text("ptx")
        assert "nvptx64" in double.llvm(signature, arch="sm_90")
        assert "nvptx64" not in double.llvm(signature)
        assert "double" in double.typed_source(signature, arch="sm_90")
        with pytest.raises(kd.ArgumentValueError, match=r"\.ptx\("):
            double.asm(signature, arch="sm_90")
        assert "ptx" not in double.asm(signature, arch="native")
    for options in ({"target": "cpu"}, {"target": "cpu", "forall": 1}):
        with pytest.raises(kd.ArgumentValueError, match=r"\.ptx\("):
            double.artifact(signature, arch="sm_90", **options)
    with pytest.raises(kd.ArgumentValueError, match=r"\.ptx\("):
        double.cpu_source(signature, arch="sm_90")
    with kd.use("cpu"), pytest.raises(kd.KernelError, match="haswell"):
        double.llvm(signature, arch="haswell")


def test_inspection_needs_no_launch(fake):
    kernel = kd.kernel(axpy.function)
    text = kernel.cpu_source("float32, float32[::1], float32[::1], float32[::1]", target="fake")
    assert "def axpy" in text
    assert kernel.artifact(1, X, X, X, forall=1).specialization.mode.forall_ndim == 1
    assert kernel.resources(1, X, X, X, target="fake").max_block_threads == 1024
    assert fake.launches == []
    with pytest.raises(kd.ArgumentValueError, match="forms are source"):
        kernel.llvm(1, X, X, X)
    with pytest.raises(kd.ArgumentValueError, match=r"cannot read|unknown dtype"):
        kernel.ptx("float32 !")
    with pytest.raises(kd.ArgumentTypeError, match="missing 'x'"):
        kernel.ptx("float32")
    with pytest.raises(kd.ArgumentTypeError, match=r"2 signatures in a list.*ptx\(each, …\) for"):
        kernel.ptx(["float32, float32[:]", "float64, float64[:]"])
    with pytest.raises(kd.ArgumentTypeError, match=r"2 signatures in 3 arguments.*one text"):
        kernel.ptx("float32", X, "float32[:]")
    with pytest.raises(kd.LaunchConfigError, match="1, 2 or 3"):
        kernel.ptx("float32", forall=4)
    with pytest.raises(kd.ArgumentTypeError, match="archs"):
        kernel.ptx("float32", archs="sm_90")
    declared = kd.kernel(SIGNATURE)(axpy.function)
    assert "def axpy" in declared.cpu_source(target="fake")


def test_timing(fake):
    timing = axpy.forall(8).time(2.0, X, X, np.zeros(8), samples=3)
    assert timing.samples == 3
    assert 0 < timing.min_ns <= timing.median_ns
    assert "fake:0" in repr(timing)
    assert "copies of NumPy" in str(timing)
    assert axpy.time(2.0, X, X, np.zeros(8), forall=8, samples=1).samples == 1
    assert axpy.time(2.0, X, X, np.zeros(8), grid=1, block=8, samples=1).samples == 1
    with pytest.raises(kd.LaunchConfigError, match="forall="):
        axpy.time(2.0, X, X, X)
    with pytest.raises(kd.ArgumentValueError, match="samples"):
        axpy.forall(8).time(2.0, X, X, X, samples=0)


def test_the_log_tells_what_happens(fake, caplog):
    with caplog.at_level(logging.DEBUG, logger="kerneldsl"):
        kd.kernel(axpy.function).forall(8)(2.0, X, X, np.zeros(8))
    text = caplog.text
    for word in ("compiled axpy(float64", "loaded axpy", "launch axpy on fake:0", "staged 3"):
        assert word in text


def test_kernels_in_a_class_body_are_static(fake):
    class Library:
        @staticmethod
        @kd.kernel
        def fill(x):
            x[kd.grid(1)] = 1

    Library().fill.forall(8)(np.zeros(8))
    assert len(fake.launches) == 1
