"""Each name of numba.cuda's: it is there, and means what it means there, on both targets."""

from __future__ import annotations

import enum
import pickle

import numpy as np
import pytest
from numba import errors

import kerneldsl as kd
import stdlib_kernels
from kerneldsl import cuda
from kerneldsl.errors import TargetUnavailableError


@pytest.fixture(params=["cpu", "null"])
def target(request):
    with kd.use(request.param):
        yield request.param


@pytest.fixture
def cpu():
    with kd.use("cpu"):
        yield


@cuda.jit
def increment(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1


@cuda.jit(device=True)
def twice(x):
    return 2 * x


@cuda.jit
def double(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = twice(x[i])


@pytest.mark.parametrize("name", cuda.__all__)
def test_every_name_is_there(name, target):
    assert getattr(cuda, name) is not None


@pytest.mark.parametrize("name", cuda.SUBMODULES)
def test_every_module_is_there(name):
    found = cuda
    for part in name.split("."):
        found = getattr(found, part)
    assert found is cuda.submodule(name)


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="the closest name is device_array"):
        cuda.devise_array


class TestArrays:
    def test_copies(self, target):
        x = cuda.to_device(np.arange(6.0).reshape(2, 3))
        assert cuda.is_cuda_array(x)
        assert cuda.devicearray.is_cuda_ndarray(x)
        assert (x.shape, x.dtype, x.stream) == ((2, 3), np.float64, 0)
        y = cuda.device_array_like(x)
        y.copy_to_device(x)
        into = np.zeros((2, 3))
        assert y.copy_to_host(into) is into
        assert into.tolist() == [[0, 1, 2], [3, 4, 5]]
        y.copy_to_device(into + 1)
        assert y.copy_to_host()[1, 2] == 6

    @pytest.mark.parametrize(
        "make",
        [
            lambda: cuda.device_array(4, np.float32),
            lambda: cuda.pinned_array(4, np.float32),
            lambda: cuda.mapped_array(4, np.float32),
            lambda: cuda.pinned_array_like(np.zeros(4, np.float32)),
            lambda: cuda.mapped_array_like(np.zeros(4, np.float32)),
            lambda: cuda.device_array_like(np.zeros(4, np.float32)),
        ],
    )
    def test_each_kind_is_an_argument(self, make, target):
        x = make()
        x[:] = 1
        increment[1, 4](x)
        cuda.synchronize()
        found = x.copy_to_host() if hasattr(x, "copy_to_host") else x
        assert found.dtype == np.float32
        if target == "cpu":
            assert found.tolist() == [2, 2, 2, 2]

    def test_managed_memory(self, cpu):
        x = cuda.managed_array(4)
        x[:] = 1
        increment[1, 4](x)
        assert x.tolist() == [2, 2, 2, 2]

    def test_elements_and_views(self, target):
        x = cuda.to_device(np.arange(6.0).reshape(2, 3))
        assert x[1, 2] == 5
        assert x[1].copy_to_host().tolist() == [3, 4, 5]
        x[0, 0] = 9
        x[1] = np.array([7, 8, 9])
        assert x.copy_to_host().tolist() == [[9, 1, 2], [7, 8, 9]]
        assert [row.tolist() for row in (each.copy_to_host() for each in x)][1] == [7, 8, 9]
        assert x.ravel().shape == (6,)
        assert x.reshape(3, 2)[2, 1] == 9
        assert x.view(np.int64).dtype == np.int64
        assert [part.size for part in x.ravel().split(4)] == [4, 2]

    def test_a_transposed_matrix_is_a_copy(self, target):
        x = cuda.to_device(np.arange(6.0).reshape(2, 3))
        x.T[0, 0] = 100
        assert x[0, 0] == 0

    @pytest.mark.parametrize("bad", [np.zeros(3), np.zeros(4)])
    def test_an_assignment_of_another_shape(self, bad, target):
        x = cuda.device_array((2, 2))
        with pytest.raises(ValueError, match="Can't copy sequence"):
            x[0] = bad

    def test_an_array_with_gaps(self, target):
        with pytest.raises(ValueError, match="non-contiguous buffer"):
            cuda.to_device(np.zeros((4, 4))[::2, ::2])

    def test_the_interface(self, target):
        x = cuda.to_device(np.arange(4.0))
        y = cuda.as_cuda_array(_Foreign(x))
        y[0] = 5
        assert x[0] == 5
        with pytest.raises(TypeError, match="cuda array interface"):
            cuda.as_cuda_array(object())

    def test_pickling(self, cpu):
        x = pickle.loads(pickle.dumps(cuda.to_device(np.arange(3))))  # noqa: S301
        assert x.copy_to_host().tolist() == [0, 1, 2]

    def test_mapped_host_arrays(self, target):
        x = np.ones(3)
        with cuda.mapped(x) as view:
            increment[1, 3](view)
        assert x.tolist() == ([2, 2, 2] if target == "cpu" else [1, 1, 1])
        with cuda.pinned(x, x[:0]):
            cuda.to_device(x)
        every_second = np.zeros(6)[::2]
        with cuda.mapped(every_second) as view:
            assert view.strides == (16,)
            if target == "null":  # it copies, and runs no kernel
                view[:] = np.arange(3)
            else:
                increment[1, 3](view)
        assert every_second.tolist() == ([1, 1, 1] if target == "cpu" else [0, 1, 2])

    def test_locked_bytes(self, target):
        x = np.arange(4, dtype=np.int32)
        memory = cuda.current_context().mempin(x, x.ctypes.data, x.nbytes, mapped=True)
        assert memory.tobytes() == x.tobytes()
        assert memory.device_ctypes_pointer.value
        assert memory.copy_to_host().view(np.int32).tolist() == [0, 1, 2, 3]

    def test_strides_of_another(self, target):
        x = np.zeros((3, 2)).T
        assert cuda.devicearray.from_array_like(x).strides == x.strides


class TestFunctionsOfNumPy:
    """They take copies on the host, as of numba.cuda's arrays."""

    @pytest.mark.parametrize("shape", [(5,), (3, 4), (1, 1)])
    @pytest.mark.parametrize(
        "function",
        [
            *(np.sum, np.mean, np.max, np.argmin, np.any, np.sin, np.isnan, np.sort, np.cumsum),
            *(np.unique, np.median, np.ones_like, lambda x: np.concatenate([x, x])),
            *(lambda x: np.add(x, x), lambda x: np.ones(x.shape) + x, lambda x: x.std(ddof=0)),
            *(lambda x: x.max(axis=0), lambda x: np.sum(x, axis=-1, keepdims=True)),
        ],
    )
    def test_they_compute_as_of_arrays_of_the_host(self, shape, function, rng):
        host = rng.standard_normal(shape)
        found, expected = function(cuda.to_device(host)), function(host)
        assert type(found) is type(expected)
        np.testing.assert_array_equal(found, expected)

    def test_arrays_of_booleans_choose_elements(self):
        x = cuda.to_device(np.arange(6.0))
        assert x[x > 2].copy_to_host().tolist() == [3, 4, 5]
        assert isinstance(x[x > 2], type(x))


class _Foreign:
    def __init__(self, array):
        self.__cuda_array_interface__ = array.__cuda_array_interface__


class TestLaunches:
    def test_forms(self, cpu):
        x = np.zeros(5)
        increment[1, 5](x)
        increment[(1, 1), (5, 1, 1)](x)
        increment[1, 5, 0](x)
        increment[1, 5, cuda.stream(), 0](x)
        increment.forall(5)(x)
        increment.forall(5, tpb=2, stream=cuda.default_stream())(x)
        increment.configure(1, 5)(x)
        assert x.tolist() == [7] * 5

    def test_forms_on_a_device_without_hardware(self, target):
        x = cuda.to_device(np.zeros(5))
        increment[1, 5](x)
        increment.forall(5)(x)

    def test_directions(self, cpu):
        x, y = np.zeros(3), np.zeros(3)
        increment[1, 3](cuda.In(x))
        increment[1, 3](cuda.InOut(y))
        assert (x.tolist(), y.tolist()) == ([0, 0, 0], [1, 1, 1])

    def test_many_launches(self, cpu):
        x = cuda.to_device(np.zeros(4))
        for _ in range(50):
            increment[1, 4](x)
        assert x.copy_to_host().tolist() == [50] * 4
        increment[1, 4](cuda.In(np.zeros(4)))

    @pytest.mark.parametrize(
        ("config", "error"),
        [((None, 1), ValueError), ((1, 1.5), TypeError), (((1, 1, 1, 1), 1), ValueError)],
    )
    def test_wrong_configurations(self, config, error, cpu):
        with pytest.raises(error):
            increment[config]

    def test_no_configuration(self, cpu):
        with pytest.raises(ValueError, match="launch configuration was not specified"):
            increment(np.zeros(1))
        with pytest.raises(ValueError, match="negative task count"):
            increment.forall(-1)

    def test_a_device_function(self, cpu):
        x = np.arange(3.0)
        double[1, 3](x)
        assert x.tolist() == [0, 2, 4]

    def test_a_kernel_is_a_device_function(self, cpu):
        @cuda.jit
        def both(x):
            x[0] += 1

        @cuda.jit
        def caller(x):
            both(x)

        x = np.zeros(1)
        both[1, 1](x)
        caller[1, 1](x)
        assert x[0] == 2

    def test_globals_keep_the_value_of_the_first_launch(self, cpu):
        x = np.zeros(1)
        add_rate[1, 1](x)
        global RATE
        RATE = 100
        try:
            add_rate[1, 1](x)
        finally:
            RATE = 2
        assert x[0] == 4

    def test_extensions(self, cpu):
        class Half:
            def prepare_args(self, ty, val, stream, retr):
                retr.append(lambda: done.append(1))
                return ty, val[:2]

        done = []
        kernel = cuda.jit(extensions=[Half()])(increment.py_func)
        x = np.zeros(4)
        for _ in range(40):
            kernel[1, 4](x)
        assert x.tolist() == [40, 40, 0, 0]
        assert len(done) == 40


RATE = 2


@cuda.jit
def add_rate(x):
    x[0] += RATE


class TestSignatures:
    def test_one(self, cpu):
        kernel = cuda.jit("void(float32[:], int32)")(_scale)
        x = np.ones(2, np.float32)
        kernel[1, 2](x, 3)
        assert x.tolist() == [3, 3]
        assert kernel.specialized
        assert len(kernel.signatures) == 1

    def test_several(self, cpu):
        kernel = cuda.jit([(cuda.float32[:], cuda.int32), "void(float64[:], int32)"])(_scale)
        for dtype in (np.float32, np.float64):
            x = np.ones(2, dtype)
            kernel[1, 2](x, 3)
            assert x.tolist() == [3, 3]
        with pytest.raises(TypeError):
            kernel[1, 2](np.ones(2, np.complex64), 3)

    def test_a_kernel_returns_nothing(self):
        with pytest.raises(TypeError, match="void return type"):
            cuda.jit("int32(int32)")(lambda x: x)

    def test_an_error_of_types_comes_at_once(self, cpu):
        from numba.core.errors import TypingError

        with pytest.raises(TypingError, match="undefined_name"):
            cuda.jit("void(float32[:])")(_undefined)

    def test_inspection(self, cpu):
        kernel = cuda.jit("void(float32[:], int32)")(_scale)
        (signature,) = kernel.signatures
        assert ".entry" in kernel.inspect_asm(signature)
        assert "define" in kernel.inspect_llvm(signature)
        assert set(cuda.jit(_scale).overloads) == set()
        code, result = cuda.compile_ptx(_scale, "void(float32[:], int32)", cc=(8, 0))
        assert ".target sm_80" in code
        assert str(result) == "none"

    def test_specialize(self, cpu):
        made = increment.specialize(np.zeros(2))
        assert made.specialized
        with pytest.raises(RuntimeError, match="already specialized"):
            made.specialize(np.zeros(2))


def _scale(x, n):
    i = cuda.grid(1)
    x[i] *= n


def _undefined(x):
    x[0] = undefined_name  # noqa: F821


class TestOptions:
    @pytest.mark.parametrize(
        "options",
        [
            {"fastmath": True},
            {"fastmath": {"nnan"}},
            {"inline": "always"},
            {"inline": True, "device": True},
            {"max_registers": 32},
            {"debug": True, "opt": False},
            {"lineinfo": True},
            {"cache": True},
            {"launch_bounds": (128, 2)},
            {"opt": False},
        ],
    )
    def test_each_is_taken(self, options, cpu):
        kernel = cuda.jit(**options)(increment.py_func)
        assert kernel.py_func is increment.py_func
        if not options.get("device"):
            x = np.zeros(2)
            kernel[1, 2](x)
            assert x.tolist() == [1, 1]

    def test_an_unknown_one(self):
        with pytest.raises(KeyError, match="fast_math"):
            cuda.jit(fast_math=True)(increment.py_func)

    def test_twice(self, cpu):
        again = cuda.jit(fastmath=True)(increment)
        x = np.zeros(2)
        again[1, 2](x)
        assert again.py_func is increment.py_func
        assert x.tolist() == [1, 1]

    def test_signatures_that_are_as_good_as_each_other(self, cpu):
        @cuda.jit(["(f8[::1], f4, f8)", "(f8[::1], f8, f4)", "(f8[::1], i8, i8)"])
        def add(out, x, y):
            out[0] = x + y

        out = np.zeros(1)
        for x, y in ((np.float32(1.5), 2.5), (1.5, np.float32(2.5)), (1, 3)):
            add[1, 1](out, x, y)
            assert out[0] == 4
        with pytest.raises(TypeError, match="Ambiguous overloading for <function") as info:
            add[1, 1](out, 1.0, 2.0)
        assert "float32, float64) -> none\n" in str(info.value)
        assert "int64" not in str(info.value)
        with pytest.raises(TypeError, match="No matching definition"):
            add[1, 1](out, 1j, 1j)

    def test_members_of_integer_enums(self, cpu):
        class Mode(enum.IntEnum):
            OFF, ON = 3, 7

        @cuda.jit
        def read(mode, out):
            out[0] = mode == Mode.ON
            out[1] = mode

        for mode in Mode:
            out = np.zeros(2, np.int64)
            read[1, 1](mode, out)
            assert out.tolist() == [mode is Mode.ON, mode.value]
        with pytest.raises(errors.TypingError, match="does not take Enum"):
            read[1, 1](enum.Enum("Kind", "A B").A, out)

    def test_the_one_signature_says_how_integers_are_read(self, cpu):
        @cuda.jit("void(uint32[:], int64[:, ::1])")
        def halve(x, y):
            x[0] //= 2
            y[0, 0] //= 2

        x, y = np.array([-2], np.int32), np.full((1, 1), 2**64 - 2, np.uint64)
        halve[1, 1](x, y)
        assert (x[0], y[0, 0]) == (2**31 - 1, 2**64 - 1)
        on_device = cuda.to_device(np.array([-2], np.int32))
        halve[1, 1](on_device, cuda.to_device(y))
        assert on_device.copy_to_host()[0] == 2**31 - 1
        with pytest.raises(TypeError, match="expects uint32"):
            halve[1, 1](np.zeros(1), y)


class TestDevices:
    def test_the_current_one(self, target):
        device = cuda.get_current_device()
        assert device.compute_capability >= (5, 0)
        assert device.WARP_SIZE == 32
        assert device.MULTIPROCESSOR_COUNT > 0
        assert device.PCI_DEVICE_ID >= 0
        assert device.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN >= device.MAX_SHARED_MEMORY_PER_BLOCK
        with pytest.raises(AttributeError, match="no attribute 'COLOR'"):
            device.COLOR
        assert cuda.runtime.get_version() == cuda.cudadrv.runtime.get_version()
        assert cuda.runtime.get_version() >= (12, 0)
        assert isinstance(device.name, bytes)
        assert next(iter(cuda.gpus)).id == 0
        assert cuda.select_device(0) == device
        with cuda.gpus[0]:
            assert cuda.current_context().device == device
        with pytest.raises(cuda.cudadrv.driver.CudaAPIError, match="INVALID_DEVICE"):
            cuda.select_device(99)

    def test_memory(self, target):
        context = cuda.current_context()
        free, total = context.get_memory_info()
        assert 0 <= free <= total
        context.deallocations.clear()
        cuda.close()

    def test_questions(self, target, capsys):
        assert cuda.is_available()
        assert cuda.detect()
        assert "Found 1 CUDA devices" in capsys.readouterr().out

    def test_streams_and_events(self, target):
        stream = cuda.stream()
        start, end = cuda.event(), cuda.event(timing=True)
        with stream.auto_synchronize():
            start.record(stream)
            increment[1, 2, stream](cuda.to_device(np.zeros(2), stream=stream))
            end.record(stream)
            end.wait(stream)
        end.synchronize()
        assert end.query()
        assert cuda.event_elapsed_time(start, end) >= 0
        called = []
        stream.add_callback(lambda *args: called.append(args), "me")
        assert called == [(stream, 0, "me")]
        assert cuda.default_stream()
        handles = map(int, (cuda.legacy_default_stream(), cuda.per_thread_default_stream()))
        assert list(handles) == [1, 2]


class TestLibrary:
    def test_reduce(self, cpu):
        total = cuda.reduce(lambda a, b: a + b)
        assert total(np.arange(1000)) == 499500
        assert total(np.arange(10), size=5, init=100) == 110
        out = cuda.device_array(1, np.int64)
        assert total(cuda.to_device(np.arange(10)), res=out) is None
        assert out[0] == 45
        assert total(np.zeros(0), init=3) == 3

    @pytest.mark.parametrize("axis", [0, 1])
    @pytest.mark.parametrize("name", ["sum", "cumsum", "sort", "max"])
    def test_the_library_takes_its_arrays(self, name, axis, cpu, rng):
        host = rng.standard_normal((6, 5))
        function = getattr(stdlib_kernels, name)
        x, out = cuda.to_device(host), cuda.to_device(np.zeros((6, 5), order="F"))
        expected = getattr(np, name)(host, axis=axis)
        np.testing.assert_allclose(function(x, axis=axis).copy_to_host(), expected, rtol=1e-12)
        if expected.shape == out.shape:
            assert function(x, axis=axis, out=out) is out
            np.testing.assert_allclose(out.copy_to_host(), expected, rtol=1e-12)

    def test_random(self, target):
        states = cuda.random.create_xoroshiro128p_states(4, seed=1)
        assert states.shape == (4,)
        if target == "cpu":
            out = np.zeros(4)
            _draw[1, 4](states, out)
            assert ((out >= 0) & (out < 1)).all()

    def test_vectorize(self, cpu):
        @cuda.vectorize(["float64(float64, float64)", "int64(int64, int64)"])
        def add(a, b):
            return a + b

        assert add(np.ones((2, 3)), np.arange(3.0)).tolist() == [[1, 2, 3]] * 2
        assert add(np.arange(3), 1).tolist() == [1, 2, 3]
        assert add.reduce(np.arange(11)) == 55
        out = np.zeros(3)
        assert add(np.ones(3), np.ones(3), out=out) is out
        assert out.tolist() == [2, 2, 2]
        on_device = add(cuda.to_device(np.ones(3)), np.ones(3))
        assert on_device.copy_to_host().tolist() == [2, 2, 2]
        with pytest.raises(TypeError, match="No matching version"):
            add(np.ones(3, np.complex64), np.ones(3))
        again = pickle.loads(pickle.dumps(add))  # noqa: S301
        assert again(np.arange(3), np.arange(3)).tolist() == [0, 2, 4]
        assert list(again.functions) == list(add.functions)

    def test_guvectorize(self, cpu):
        @cuda.guvectorize(["void(float64[:], float64[:], float64[:])"], "(n),()->(n)")
        def scale(x, by, out):
            for i in range(x.size):
                out[i] = x[i] * by[0]

        x = np.arange(6.0).reshape(2, 3)
        assert scale(x, np.array([2.0, 3.0])).tolist() == [[0, 2, 4], [9, 12, 15]]
        again = pickle.loads(pickle.dumps(scale))  # noqa: S301
        assert again(x, np.array([2.0, 3.0])).tolist() == [[0, 2, 4], [9, 12, 15]]
        with pytest.raises(ValueError, match="insufficient inner dimension"):
            scale(np.float64(1), np.ones(1))
        with pytest.raises(NameError, match="undefined output symbols: m"):
            cuda.guvectorize(["void(float64[:], float64[:])"], "(n)->(m)")(scale.py_func)

    def test_numba_itself_finds_it(self):
        import subprocess
        import sys

        text = (
            "import kerneldsl.drop_in, numba, numpy as np\n"
            "f = numba.vectorize(['float64(float64)'], target='cuda')(lambda x: x + 1)\n"
            "print(f(np.ones(2)))"
        )
        command = [sys.executable, "-c", text]
        assert subprocess.check_output(command, text=True) == "[2. 2.]\n"

    @pytest.mark.parametrize(
        ("name", "args", "expected"),
        [
            ("hadd", (1, 2), 3),
            ("hfma", (2, 3, 4), 10),
            ("hneg", (2,), -2),
            ("hmax", (1, 2), 2),
            ("hmin", (float("nan"), 2), 2),
            ("hlt", (1, 2), 1),
            ("hsqrt", (4,), 2),
            ("hexp2", (3,), 8),
            ("hrint", (2.5,), 2),
            ("htrunc", (-2.5,), -2),
        ],
    )
    def test_float16(self, name, args, expected):
        found = getattr(cuda.fp16, name)(*map(np.float16, args))
        assert found == expected

    def test_float16_in_a_kernel(self, cpu):
        x = np.full(2, 3, np.float16)
        _fused[1, 2](x)
        assert x.tolist() == [12, 12]

    def test_cache_hints(self, cpu):
        x, y = np.arange(4.0), np.zeros(4)
        _hinted[1, 4](x, y)
        assert y.tolist() == [0, 1, 2, 3]


@cuda.jit
def _draw(states, out):
    i = cuda.grid(1)
    out[i] = cuda.random.xoroshiro128p_uniform_float64(states, i)


@cuda.jit
def _fused(x):
    i = cuda.grid(1)
    x[i] = cuda.fp16.hfma(x[i], x[i], x[i])


@cuda.jit
def _hinted(x, y):
    i = cuda.grid(1)
    cuda.stcg(y, i, cuda.ldcs(x, i))


def test_kernels_are_pickled(cpu):
    assert pickle.loads(pickle.dumps(increment)) is increment  # noqa: S301
    local = cuda.jit(lambda x: x.fill(0), device=True)
    assert pickle.loads(pickle.dumps(local)).targetoptions["device"] is True  # noqa: S301


@cuda.jit
def _warp_size(out):
    out[0] = cuda.warpsize


def test_the_size_of_a_warp_alone(cpu):
    out = np.zeros(1, np.int32)
    _warp_size[1, 1](out)
    assert out[0] == 32


@cuda.jit
def _largest(x, y):
    i = cuda.grid(1)
    cuda.atomic.max(x, 0, y[i])
    cuda.atomic.nanmax(x, 1, y[i])


@cuda.jit
def _swapped(x, out):
    out[0] = cuda.atomic.compare_and_swap(x, 3, 7)


def test_atomic_names(cpu):
    x = np.array([np.nan, np.nan])
    _largest[1, 3](x, np.array([1.0, np.nan, 2.0]))
    assert np.isnan(x[0])
    assert x[1] == 2
    y, out = np.array([3, 3]), np.zeros(1, np.int64)
    _swapped[1, 1](y, out)
    assert (y.tolist(), out[0]) == ([7, 3], 3)


def test_the_tables_of_the_migration_page():
    options = {"cache", "link", "add_callback", "forall"}
    assert set(cuda.DIFFERENCES) <= {*cuda.__all__, *options}
    for name, instead in cuda.INSTEAD.items():
        assert name in {*cuda.__all__, *options, "device", "to_device_async"}, name
        found = instead.removeprefix("kd.").partition("(")[0].partition(".")[0]
        assert not instead.startswith("kd.") or hasattr(kd, found), instead


@pytest.mark.parametrize("make", [cuda.device_array, cuda.mapped_array, cuda.managed_array])
def test_arrays_show_their_stream(make, cpu):
    stream = cuda.stream()
    assert make(3, stream=stream).__cuda_array_interface__["stream"] == int(stream)
    assert make(3).__cuda_array_interface__["stream"] is None


def test_specializations_are_counted(cpu):
    kernel = cuda.jit(increment.py_func)
    for dtype in (np.float32, np.float64, np.float32):
        kernel.specialize(np.zeros(2, dtype))
    assert len(kernel.specializations) == 2


class TestMemory:
    def test_pointers_and_copies_of_bytes(self, cpu):
        from kerneldsl.cuda.cudadrv import driver

        values = np.random.default_rng().integers(0, 2**31, 21, np.int32)
        memory = cuda.current_context().memalloc(values.nbytes)
        driver.host_to_device(memory, values, values.nbytes)
        part = memory.view(4, 16)
        assert (part.size, int(part) - int(memory), memory.refct) == (12, 4, 2)
        driver.device_memset(part, 0xAB, part.size)
        found = np.empty_like(values)
        driver.device_to_host(found, memory, values.nbytes)
        np.testing.assert_array_equal(found[1:4].view(np.uint8), np.full(12, 0xAB))
        np.testing.assert_array_equal(found[4:], values[4:])
        array = cuda.cudadrv.devicearray.DeviceNDArray((21,), (4,), np.int32, gpu_data=memory)
        np.testing.assert_array_equal(array.copy_to_host(), found)
        other = cuda.device_array_like(values)
        driver.device_to_device(other, memory, driver.device_memory_size(other))
        np.testing.assert_array_equal(other.copy_to_host(), found)

    def test_a_plugin_allocates_arrays(self, cpu):
        class Plugin(cuda.HostOnlyCUDAMemoryManager):
            def __init__(self, *args, **named):
                super().__init__(*args, **named)
                self.held = []

            def initialize(self):
                self.is_ready = True

            def memalloc(self, size):
                assert self.is_ready
                self.held.append(np.empty(size, np.uint8))
                address = self.held[-1].ctypes.data
                return cuda.cudadrv.driver.AutoFreePointer(
                    self.context, address, size, finalizer=self.held.clear
                )

            def get_memory_info(self):
                return cuda.MemoryInfo(1, 2)

            def get_ipc_handle(self, memory):
                return "a handle"

            interface_version = 1

        context = cuda.current_context()
        before, context.memory_manager = context.memory_manager, Plugin(context=context)
        try:
            x = cuda.to_device(np.arange(10.0))
            manager = context.memory_manager
            np.testing.assert_array_equal(manager.held[0].view(np.float64), np.arange(10.0))
            increment[1, 32](x)
            np.testing.assert_array_equal(x.copy_to_host(), np.arange(1.0, 11.0))
            assert context.get_memory_info() == (1, 2)
            assert x.get_ipc_handle()._ipc_handle == "a handle"
            del x
            assert not manager.held
        finally:
            context.memory_manager = before
        with pytest.raises(TargetUnavailableError, match="no memory that CUDA shares"):
            cuda.device_array(3).get_ipc_handle()

    def test_a_broadcast_array_keeps_its_strides(self, cpu):
        source = np.broadcast_to(np.arange(3.0), (4, 3))
        x = cuda.to_device(source)
        assert x.strides == (0, 8)
        np.testing.assert_array_equal(x.copy_to_host(), source)

    def test_records_of_a_dtype(self, cpu):
        dtype = np.dtype([("a", np.int32), ("name", "U3"), ("m", np.float32, (2, 2))])
        x = cuda.device_array(2, dtype)
        x[1]["name"], x[1]["a"], x[1]["m"] = "abc", 7, np.ones((2, 2))
        host = np.zeros(1, dtype)[0]
        x[1].copy_to_host(host)
        assert (host["a"], host["name"], host["m"].sum()) == (7, "abc", 4)
        made = cuda.cudadrv.devicearray.from_record_like(host)
        made.copy_to_device(host)
        assert made["name"] == "abc"

    def test_the_active_context(self, cpu):
        driver = cuda.cudadrv.driver.driver
        while driver.pop_active_context() is not None:
            pass
        with cuda.gpus[0]:
            assert driver.get_active_context().devnum == 0
        assert not driver.get_active_context()
        assert driver.cuMemGetInfo().total > 0

    def test_disabled(self):
        import os
        import subprocess
        import sys

        program = (
            "from kerneldsl import cuda\n"
            "assert not cuda.is_available()\n"
            "try: cuda.device_array(1)\n"
            "except cuda.CudaSupportError as error: assert 'NUMBA_DISABLE_CUDA' in error.msg\n"
            "else: raise AssertionError\n"
        )
        environment = {**os.environ, "NUMBA_DISABLE_CUDA": "1"}
        subprocess.run([sys.executable, "-c", program], env=environment, check=True)

    def test_a_host_array_with_odd_addresses(self, cpu):
        memory = np.zeros(10 * 8 + 4, np.uint8)
        x = memory[4:].view(np.float64)
        assert not x.flags.aligned
        increment[1, 32](x)
        np.testing.assert_array_equal(x, np.ones(10))

    def test_a_gufunc_of_arrays_of_another_library(self, cpu):
        class Foreign:
            def __init__(self, array):
                self.__cuda_array_interface__ = array.__cuda_array_interface__

        @cuda.guvectorize(["(f8, f8, f8[:])"], "(),()->()")
        def add(x, y, out):
            out[0] = x + y

        values = np.random.default_rng().random(11)
        x, place = cuda.to_device(values), cuda.to_device(np.full(11, np.nan))
        np.testing.assert_array_equal(add(Foreign(x), np.float64(7)).copy_to_host(), values + 7)
        add(values, np.float64(7), out=Foreign(place))
        np.testing.assert_array_equal(place.copy_to_host(), values + 7)


def test_what_must_be_constant(cpu):
    @cuda.jit
    def kernel(out, n):
        own = cuda.local.array(n, np.float64)
        out[0] = own[0]

    with pytest.raises(
        errors.TypingError, match=r"RequireLiteralValue: .*not a constant"
    ) as caught:
        kernel[1, 1](np.zeros(1), 3)
    assert isinstance(caught.value, errors.RequireLiteralValue)
