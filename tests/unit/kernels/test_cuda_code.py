"""Kernels of CUDA C++, PTX and cubins without a GPU: on the CPU, and on a described device."""

from __future__ import annotations

import gc
import inspect
import pickle
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.frontend.linked_code import CodeForm
from kerneldsl.launch.native import machine
from targets import null
from targets.cuda.compile import nvrtc
from targets.cuda.compile.nvrtc import CudaText, compile_text
from targets.cuda.target import CudaTarget
from targets.null.target import NullTarget
from tests.support.falling_back import forget_choices
from tests.support.launched import numbers
from tests.support.native import is_native, require_native, warm_up

SAXPY = """
extern "C" __global__ void saxpy(float a, const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
template<class T> __global__ void scale(T *x, T factor, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}
"""
SIGNATURE = "float32, float32[::1], float32[::1], int32"
FACTOR = 1.0


def saxpy_on_cpu(a, x, y, n):
    """Add a multiple of x to y."""
    i = kd.grid(1)
    if i < n:
        y[i] += FACTOR * a * x[i]


@pytest.fixture
def saxpy() -> kd.CudaKernel:
    return kd.cuda_source(SAXPY, "saxpy", SIGNATURE, cpu=saxpy_on_cpu)


@pytest.fixture
def target() -> Iterator[NullTarget]:
    with null.described_as(null.H100) as found, kd.use("null"):
        yield found
    found.reset()


def _code(form: CodeForm) -> bytes:
    return compile_text(CudaText(SAXPY, "<saxpy>"), "sm_90", form=form).code


# ------------------------------------------------------------------------- on the CPU


@pytest.mark.parametrize("n", [1, 255, 1001])
def test_the_cpu_function_runs(saxpy: kd.CudaKernel, n: int) -> None:
    x, y = numbers(n), numbers(n)
    expected = y + np.float32(2) * x
    with kd.use("cpu"):
        saxpy.forall(n)(2.0, x, y, n)
        np.testing.assert_allclose(y, expected, rtol=1e-6)
        saxpy[(n + 63) // 64, 64](2.0, x, y, n)
    np.testing.assert_allclose(y, expected + np.float32(2) * x, rtol=1e-6)


def test_a_kernel_may_be_what_runs_on_the_cpu() -> None:
    known = kd.kernel(saxpy_on_cpu)
    made = kd.cuda_source(SAXPY, "saxpy", SIGNATURE, cpu=known)
    assert made.cpu is known
    x, y = np.ones(9, np.float32), np.ones(9, np.float32)
    with kd.use("cpu"):
        made.forall(9)(2, x, y, 9)  # an int becomes the float of the signature
    assert (y == 3).all()


def test_native_code_repeats_it_on_the_cpu(saxpy: kd.CudaKernel) -> None:
    require_native()
    x, y = np.ones(1000, np.float32), np.ones(1000, np.float32)
    with kd.use("cpu"):
        launch = saxpy.forall(1000)
        warm_up(launch, 2.0, x, y, 1000)
        y[...] = 1
        with is_native(launch):
            saxpy.forall(1000)(2.0, x, y, 1000)
    assert (y == 3).all()


def test_a_captured_constant_of_the_cpu_function_is_read_again(
    saxpy: kd.CudaKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = np.ones(9, np.float32), np.zeros(9, np.float32)
    with kd.use("cpu"):
        saxpy.forall(9)(1.0, x, y, 9)
        monkeypatch.setitem(globals(), "FACTOR", 10.0)
        saxpy.forall(9)(1.0, x, y, 9)
    assert (y == 11).all()


def test_without_a_cpu_function_the_error_says_so(tmp_path: Path) -> None:
    file = tmp_path / "saxpy.cu"
    file.write_text(SAXPY)
    made = kd.cuda_source(file, "saxpy", SIGNATURE)
    x = np.ones(9, np.float32)
    with kd.use("cpu"), pytest.raises(kd.TargetUnavailableError) as caught:
        made.forall(9)(2.0, x, x.copy(), 9)
    told = str(caught.value)
    assert "saxpy is CUDA C++, which the target 'cpu' does not run. It has no CPU function" in told
    assert "cpu=" in told
    assert f"at {file}:2, in saxpy\n      extern" in told
    assert (x == 1).all()


# ------------------------------------------------------------------------- on a device


def test_a_driver_gets_the_parameters_of_c(target: NullTarget, saxpy: kd.CudaKernel) -> None:
    x, y = kd.to_device(numbers(1000)), kd.to_device(numbers(1000))
    saxpy[4, 256](2.0, x, y, 1000)
    (record,) = target.launches
    assert (record.entry_name, record.kernel) == ("saxpy", "saxpy")
    assert record.config.grid_dim == (4, 1, 1)
    wanted = {"a": 2.0, "x.data": x.pointer, "y.data": y.pointer, "n": 1000}
    assert {name: record.values[name] for name in wanted} == wanted


@pytest.mark.parametrize("form", ["source", "ptx", "cubin", "path"])
def test_native_code_passes_the_same(target: NullTarget, form: str, tmp_path: Path) -> None:
    require_native()
    if form == "source":
        made = kd.cuda_source(SAXPY, "saxpy", SIGNATURE)
    else:
        image: Any = _code(CodeForm.PTX if form == "ptx" else CodeForm.CUBIN)
        if form == "path":
            file = tmp_path / "saxpy.cubin"
            file.write_bytes(image)
            image = file
        made = kd.module(image).kernel("saxpy", SIGNATURE)
    x, y = kd.to_device(numbers(1000)), kd.to_device(numbers(1000))
    for launch in (made.forall(1000), made[4, 256]):
        warm_up(launch, 2.0, x, y, 1000)
        target.launches.clear()
        with machine.suspended():
            launch(2.5, x, y, 999)
        with is_native(launch):
            launch(2.5, x, y, 999)
        by_python, by_native = target.launches
        assert by_python == by_native
        assert 999 in by_native.values.values()


def test_a_record_is_passed_by_value(target: NullTarget) -> None:
    pair = np.dtype([("first", np.float32), ("second", np.int64)], align=True)
    text = """struct Pair { float first; long long second; };
    extern "C" __global__ void f(double *out, Pair pair, bool last) { out[0] = pair.second; }"""

    def on_cpu(out, pair, last):
        out[0] = pair.first + pair.second

    made = kd.cuda_source(text, "f", ("float64[::1]", pair, "bool"), cpu=on_cpu)
    value = np.array((0.5, 7), pair)[()]
    made[1, 1](kd.zeros(1), value, True)
    (record,) = target.launches
    first = record.values["pair.bytes[0]"].to_bytes(8, "little")[:4]
    assert first == np.float32(0.5).tobytes()
    assert record.values["pair.bytes[8]"] == 7
    out = np.zeros(1)
    with kd.use("cpu"):
        made[1, 1](out, value, True)
    assert out[0] == 7.5
    smaller = np.dtype([("first", np.float32)])
    with pytest.raises(kd.ArgumentTypeError, match="passes 4 bytes as parameter 2"):
        kd.cuda_source(text, "f", ("float64[::1]", smaller, "bool")).ptx(arch="sm_90")


def test_overlapping_arrays_and_odd_addresses_need_no_other_code(
    target: NullTarget, saxpy: kd.CudaKernel
) -> None:
    require_native()
    x = kd.zeros(1000, np.float32)
    launch = saxpy[4, 256]
    warm_up(launch, 2.0, x[:900], x[3:903], 900)
    with is_native(launch):
        launch(2.0, x[1:901], x[1:901], 900)
    assert len([each for each in saxpy.specializations if each.target == "null"]) == 1


def test_forall_takes_any_extent(target: NullTarget, saxpy: kd.CudaKernel) -> None:
    for extent, along in (((1000,), 1000), ((30, 40), 30), ((8, 4, 2), 8)):
        x, y = kd.zeros(2000, np.float32), kd.zeros(2000, np.float32)
        saxpy.forall(*extent)(2.0, x, y, 1000)
        config = target.launches[-1].config
        # Its first axis is along x, and each thread has one index.
        assert config.grid_dim[0] * config.block_dim[0] >= along
        assert all(
            g * b >= n for g, b, n in zip(config.grid_dim, config.block_dim, extent, strict=False)
        )


def test_numpy_arrays_are_copied_there_and_back(target: NullTarget, saxpy: kd.CudaKernel) -> None:
    x, y = numbers(100), numbers(100)
    x.flags.writeable = False  # the CPU function says that it is read alone
    before = y.copy()
    saxpy.forall(100)(2.0, x, y, 100)
    np.testing.assert_array_equal(y, before)  # what does not run changes nothing


def test_a_missing_device_is_named_too(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_choices(monkeypatch)
    made = kd.cuda_source(SAXPY, "saxpy", SIGNATURE)
    x = np.ones(9, np.float32)
    monkeypatch.setattr(CudaTarget, "unavailable_reason", lambda self: "there is no GPU")
    monkeypatch.setattr(CudaTarget, "devices", lambda self: ())
    with kd.fallback("silent"), kd.use("cuda"), pytest.raises(kd.TargetUnavailableError) as caught:
        made.forall(9)(2.0, x, x.copy(), 9)
    assert "The CPU stands in for cuda" in str(caught.value)
    assert "there is no GPU" in str(caught.value)


def test_without_a_cpu_function_every_array_counts_as_written(target: NullTarget) -> None:
    made = kd.cuda_source(SAXPY, "saxpy", SIGNATURE)
    x = np.ones(9, np.float32)
    x.flags.writeable = False
    with pytest.raises(kd.ReadOnlyArrayError):
        made.forall(9)(2.0, x, np.ones(9, np.float32), 9)


def test_shared_memory_and_streams(target: NullTarget, saxpy: kd.CudaKernel) -> None:
    x, y = kd.zeros(1000, np.float32), kd.zeros(1000, np.float32)
    stream = kd.Stream()
    saxpy[4, 256, stream, 4096](2.0, x, y, 1000)
    config = target.launches[-1].config
    assert config.shared_bytes == 4096
    assert config.stream is not None
    with pytest.raises(kd.LaunchConfigError, match="300000 bytes of shared memory"):
        saxpy[4, 256, stream, 300_000](2.0, x, y, 1000)


def test_a_graph_repeats_it(target: NullTarget, saxpy: kd.CudaKernel) -> None:
    x, y = kd.zeros(1000, np.float32), kd.zeros(1000, np.float32)
    stream = kd.Stream()
    saxpy.forall(1000)(2.0, x, y, 1000)
    with stream.capture() as graph:
        saxpy.forall(1000)(2.0, x, y, 1000)
        saxpy[4, 256](3.0, x, y, 1000)
    target.launches.clear()
    graph.launch()
    graph.launch()
    assert [each.values["a"] for each in target.launches] in ([2.0, 3.0] * 2, [2.0, 3.0], [])


def test_statistics_and_profiles_name_it(target: NullTarget, saxpy: kd.CudaKernel) -> None:
    kd.reset_stats()
    x, y = kd.zeros(1000, np.float32), kd.zeros(1000, np.float32)
    with kd.profile() as found:
        for _ in range(3):
            saxpy.forall(1000)(2.0, x, y, 1000)
    names = [each.name for each in found.activities if each.kind == "launch"]
    assert names == ["saxpy"] * 3
    (counted,) = (each for each in kd.stats().kernels if each.kernel.endswith(".saxpy"))
    assert (counted.launches, counted.device) == (3, "null:0")


# ------------------------------------------------------------------------- planning


def test_occupancy_is_of_the_assembled_code() -> None:
    heavy = """extern "C" __global__ void heavy(float *x, int n) {
        __shared__ float room[8192];
        float own[100];
        for (int i = 0; i < 100; i++) own[i] = x[i * n];
        for (int k = 0; k < n; k++)
            for (int i = 0; i < 100; i++) own[i] = own[i] * own[(i + 7) % 100] + k;
        for (int i = 0; i < 100; i++) x[i * n] = own[i];
        room[threadIdx.x] = x[n];
        __syncthreads();
        x[n] = room[n];
    }"""
    made = kd.cuda_source(heavy, "heavy", "float32[::1], int32")
    takes = made.resources(arch="sm_90")
    assert takes.static_shared_bytes == 32768
    assert takes.registers is not None
    assert takes.registers > 64
    plan = made.forall(1 << 20).plan("float32[::1], int32", arch="sm_90")
    assert plan.registers == takes.registers
    # 32 KiB and 1 KiB of the system's for each block: 6 fit on a multiprocessor of an H100.
    assert plan.active_blocks <= 6
    light = kd.cuda_source(SAXPY, "saxpy", SIGNATURE)  # without a CPU function
    other = light.forall(1 << 20).plan(SIGNATURE, arch="sm_90")
    assert other.active_blocks * other.block_threads == 2048


def test_a_plan_counts_what_the_cpu_function_does(saxpy: kd.CudaKernel) -> None:
    plan = saxpy.forall(1 << 24).plan(SIGNATURE, arch="sm_90")
    assert plan.mapping.item_count == 1
    assert plan.predicted_ns > 1e4  # 200 MB take tens of microseconds


# ------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("signature", "told"),
    [
        (None, "the kernel saxpy has no signature"),
        ("float32[:]", "parameter 1 is float32[:], an array with any strides"),
        ("float32[:, :]", "Write float32[:, ::1]"),
        ("(float32, int32), int64", "parameter 1 is the tuple (float32, int32)"),
        (["float32", "float64"], "the kernel saxpy was given 2 signatures"),
        ("no_type", "no_type"),
    ],
)
def test_signatures_that_c_cannot_have(signature: Any, told: str) -> None:
    with pytest.raises(kd.ArgumentError) as caught:
        kd.cuda_source(SAXPY).kernel("saxpy", signature)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"cpu": lambda x: None}, "has 1 parameter. The signature"),
        ({"cpu": 3}, "cpu is an int"),
        ({"options": {"std": "c++17"}}, "options is a dict"),
        ({"block": "x"}, "block"),
        ({"name": 3}, "name is 3"),
        ({"source": 3}, "cuda_source was given an int"),
        ({"source": "no_such_file.cu"}, "no_such_file.cu cannot be read"),
        ({"name": None}, "and no name"),
    ],
)
def test_wrong_arguments(wrong: dict[str, Any], told: str) -> None:
    given = {"source": SAXPY, "name": "saxpy", "signature": SIGNATURE, **wrong}
    with pytest.raises(kd.KernelError) as caught:
        kd.cuda_source(**given)
    assert told in str(caught.value)


def test_a_relative_path_begins_at_the_python_file(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "saxpy.cu").write_text('#include "beside.h"\n' + SAXPY)
    (tmp_path / "code" / "beside.h").write_text("")
    (tmp_path / "code" / "saxpy.cubin").write_bytes(_code(CodeForm.CUBIN))
    program = tmp_path / "program.py"
    program.write_text(
        "import kerneldsl as kd\n"
        f"first = kd.cuda_source('code/saxpy.cu', 'saxpy', {SIGNATURE!r})\n"
        f"second = kd.module('code/saxpy.cubin').kernel('saxpy', {SIGNATURE!r})\n"
    )
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(program.read_text(), str(program), "exec"), names)
    assert ".entry saxpy" in names["first"].ptx(arch="sm_90")
    odd = tmp_path / "a {.version}"
    odd.mkdir()
    (odd / "saxpy.cu").write_text(SAXPY)
    (odd / "saxpy.ptx").write_bytes(_code(CodeForm.PTX))
    assert kd.cuda_source(str(odd / "saxpy.cu")).name == str(odd / "saxpy.cu")
    assert kd.module(str(odd / "saxpy.ptx")).name == str(odd / "saxpy.ptx")
    assert names["second"].resources(arch="sm_90").registers


@pytest.mark.parametrize(
    ("image", "told"),
    [
        (3, "module was given an int"),
        ("no_such_file.cubin", "no_such_file.cubin cannot be read"),
    ],
)
def test_what_is_no_module(image: Any, told: str) -> None:
    with pytest.raises(kd.KernelError) as caught:
        kd.module(image)
    assert told in str(caught.value)


def test_wrong_code_never_runs_on_the_cpu(target: NullTarget) -> None:
    """It is the program's error, even where the CPU could run something; nothing is lost."""
    x, y = kd.zeros(9, np.float32), kd.to_device(np.ones(9, np.float32))
    cubin = _code(CodeForm.CUBIN)
    bad = [
        (
            kd.cuda_source(SAXPY.replace("a * x", "b * x"), "saxpy", SIGNATURE, cpu=saxpy_on_cpu),
            "b",
        ),
        (kd.cuda_source(SAXPY, "daxpy", SIGNATURE, cpu=saxpy_on_cpu), "daxpy"),
        (kd.cuda_source("#include <no.h>\n" + SAXPY, "saxpy", SIGNATURE, cpu=saxpy_on_cpu), "no.h"),
        (kd.module(cubin[:-100]).kernel("saxpy", SIGNATURE, cpu=saxpy_on_cpu), "not a whole"),
        (kd.module(cubin).kernel("daxpy", SIGNATURE, cpu=saxpy_on_cpu), "has no kernel daxpy"),
        (kd.module(b"junk").kernel("saxpy", SIGNATURE, cpu=saxpy_on_cpu), "neither PTX nor"),
    ]
    for made, told in bad:
        for _ in range(2):
            with pytest.raises(kd.DeviceCodeError, match=told):
                made.forall(9)(2.0, x, y, 9)
    wide = kd.cuda_source(SAXPY, "saxpy", SIGNATURE.replace("int32", "int64"), cpu=saxpy_on_cpu)
    with pytest.raises(kd.ArgumentTypeError, match="passes 8 bytes as parameter 4"):
        wide.forall(9)(2.0, x, y, 9)
    other = compile_text(CudaText(SAXPY, "<saxpy>"), "sm_80").code
    elsewhere = kd.module(other).kernel("saxpy", SIGNATURE, cpu=saxpy_on_cpu)
    with pytest.raises(kd.DeviceCodeError, match="is a cubin for sm_80, and the device is sm_90"):
        elsewhere.forall(9)(2.0, x, y, 9)
    assert target.launches == []
    assert (y.copy_to_host() == 1).all()
    good = kd.cuda_source(SAXPY, "saxpy", SIGNATURE)
    good.forall(9)(2.0, x, y, 9)
    assert len(target.launches) == 1


def test_an_error_is_at_the_line_of_this_file() -> None:
    made = kd.cuda_source(
        """
extern "C" __global__ void wrong(float *x) {
    x[0] = not_declared;
}""",
        "wrong",
        "float32[::1]",
    )
    with pytest.raises(kd.DeviceCodeError) as caught:
        made.ptx(arch="sm_90")
    first = inspect.getsourcelines(test_an_error_is_at_the_line_of_this_file)[1]
    assert f"  at {__file__}:{first + 4}\n      x[0] = not_declared;\n" in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 10
    assert 'error: identifier "not_declared" is undefined' in caught.value.details


# ------------------------------------------------------------------------- falling back


def test_without_nvrtc_the_cpu_function_runs(
    saxpy: kd.CudaKernel, target: NullTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_choices(monkeypatch)

    def missing() -> None:
        raise kd.ToolMissingError("CUDA C++ needs NVRTC: it is not installed")

    nvrtc.nvrtc_version.cache_clear()
    monkeypatch.setattr(nvrtc, "_import_nvrtc", missing)
    monkeypatch.setattr(nvrtc, "supported_architectures", missing)
    x, y = np.ones(9, np.float32), np.ones(9, np.float32)
    with kd.use("null"), pytest.warns(kd.FallbackWarning, match="needs NVRTC"):
        saxpy.forall(9)(2.0, x, y, 9)
    assert (y == 3).all()
    assert target.launches == []


def test_a_missing_gpu_lets_the_cpu_function_run(
    saxpy: kd.CudaKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_choices(monkeypatch)
    x, y = np.ones(9, np.float32), np.ones(9, np.float32)
    with null.described_as(null.H100) as target, kd.use("null"), kd.fallback("silent"):
        target.fail_next("load", null.fault("memory"))
        saxpy.forall(9)(2.0, x, y, 9)
        assert (y == 3).all()
        z = kd.to_device(y)
        target.fail_next("launch", null.fault("memory"))
        saxpy.forall(9)(2.0, x, z, 9)
        assert (z.copy_to_host() == 5).all()
        alone = kd.cuda_source(SAXPY, "saxpy", SIGNATURE)
        target.fail_next("load", null.fault("memory"))
        with pytest.raises(
            kd.DeviceMemoryError, match="It cannot run on the CPU instead: saxpy is"
        ):
            alone.forall(9)(2.0, x, y, 9)
    assert (y == 3).all()


# ------------------------------------------------------------------------- the object


def test_kernels_of_a_source_share_it(target: NullTarget) -> None:
    source = kd.cuda_source(SAXPY)
    first = source.kernel("saxpy", SIGNATURE)
    second = source.kernel("scale<double>", "float64[::1], float64, int64")
    x = kd.zeros(9, np.float64)
    second.forall(9)(x, 2, 9)
    assert target.launches[-1].entry_name == "_Z5scaleIdEvPT_S0_x"
    first.forall(9)(2.0, kd.zeros(9, np.float32), kd.zeros(9, np.float32), 9)
    assert target.launches[-1].entry_name == "saxpy"
    assert repr(source) == "<CudaModule <cuda_source>: CUDA C++>"


def test_it_looks_like_a_kernel(saxpy: kd.CudaKernel) -> None:
    assert repr(saxpy) == "<kernel saxpy of CUDA C++, <saxpy>>"
    assert str(inspect.signature(saxpy)) == "(a, x, y, n)"
    assert saxpy.__doc__ == "Add a multiple of x to y."
    assert saxpy.source == SAXPY
    assert saxpy.__module__ == __name__
    with pytest.raises(kd.LaunchConfigError, match="called without a launch configuration"):
        saxpy(2.0)
    with pytest.raises(kd.UnsupportedConstructError, match="Only kernels in Python are explained"):
        saxpy.explain(SIGNATURE)
    with pytest.raises(kd.SourceUnavailableError, match="is a cubin, which has no source"):
        kd.module(_code(CodeForm.CUBIN)).kernel("saxpy", SIGNATURE).source


def test_parameters_have_the_names_of_the_source() -> None:
    plain = kd.cuda_source(SAXPY, "saxpy", SIGNATURE)
    assert str(inspect.signature(plain)) == "(a, x, y, n)"
    with kd.use("null"):
        x = kd.zeros(9, np.float32)
        plain.forall(9)(2.0, n=9, y=x, x=x)
    of_cubin = kd.module(_code(CodeForm.CUBIN)).kernel("saxpy", SIGNATURE)
    assert str(inspect.signature(of_cubin)) == "(arg0, arg1, arg2, arg3)"


@pytest.mark.parametrize(
    ("declared", "names"),
    [
        ("float x[], int n", "(x, n)"),
        ("float x[ 4 ][3], int n", "(x, n)"),
        ("float *__restrict__ x, int n = 3", "(x, n)"),
        ("float *, int", "(arg0, arg1)"),
        ("Pair<int, float> *x, int n", "(arg0, arg1)"),
    ],
)
def test_declarations_of_parameters(declared: str, names: str) -> None:
    text = f'extern "C" __global__ void fill({declared}) {{\n}}'
    made = kd.cuda_source(text, "fill", "float32[::1], int32")
    assert str(inspect.signature(made)) == names


def test_parameters_of_functions_of_one_name_have_no_names() -> None:
    text = """
    namespace a { __global__ void fill(int *x, int *y) { } }
    namespace b { __global__ void fill(int *y, int *x) { } }
    """
    made = kd.cuda_source(text, "b::fill", "int32[::1], int32[::1]")
    assert str(inspect.signature(made)) == "(arg0, arg1)"


def test_files_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "saxpy.cu"
    path.write_text(SAXPY, encoding="utf-8-sig")
    assert kd.cuda_source(path, "saxpy", SIGNATURE).source == SAXPY


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_code_may_be_in_any_buffer_of_bytes(kind: type) -> None:
    code = _code(CodeForm.CUBIN)
    found = [kd.module(each).kernel("saxpy", SIGNATURE) for each in (kind(code), code)]
    of_buffer, of_bytes = (each.resources(arch="sm_90") for each in found)
    assert of_buffer == of_bytes


def test_an_empty_text_is_no_path() -> None:
    with pytest.raises(kd.ArgumentValueError, match="was given an empty text"):
        kd.cuda_source("", "saxpy", SIGNATURE)


def test_code_can_be_looked_at(saxpy: kd.CudaKernel) -> None:
    assert ".target sm_80" in saxpy.ptx(arch="sm_80")
    assert "saxpy" in saxpy.cpu_source(forall=1)
    assert saxpy.artifact(arch="sm_90", target="cuda").code("cubin").startswith(b"\x7fELF")
    with pytest.raises(kd.ArgumentValueError, match="has no form 'llvm'"):
        saxpy.llvm(arch="sm_90", target="cuda")
    warned = kd.cuda_source(SAXPY.replace("int i", "int unused, i", 1), "saxpy", SIGNATURE)
    assert warned.log == ""
    warned.ptx(arch="sm_90")
    assert "never referenced" in warned.log


def test_it_is_pickled(saxpy: kd.CudaKernel) -> None:
    made = pickle.loads(pickle.dumps(saxpy))  # noqa: S301
    x, y = np.ones(9, np.float32), np.ones(9, np.float32)
    with kd.use("cpu"):
        made.forall(9)(2.0, x, y, 9)
    assert (y == 3).all()
    assert made.ptx(arch="sm_90") == saxpy.ptx(arch="sm_90")


def test_what_is_dropped_is_freed() -> None:
    made = kd.cuda_source(SAXPY, "saxpy", SIGNATURE, cpu=saxpy_on_cpu)
    made.ptx(arch="sm_90")
    code = weakref.ref(made._code.module)
    del made
    gc.collect()
    assert code() is None


def test_lto_ir_is_no_module() -> None:
    with pytest.raises(kd.DeviceCodeError) as caught:
        kd.module(_code(CodeForm.LTO_IR))
    assert str(caught.value).startswith("<module> is LTO-IR. A module is PTX, a cubin or a fat")
    assert "@kd.func(link=…)" in str(caught.value)


@pytest.mark.parametrize(
    "launch",
    [lambda module: module.forall(9), lambda module: module[1, 9], lambda module: module(1)],
)
def test_a_module_is_not_launched(launch: Any) -> None:
    with pytest.raises((kd.ArgumentTypeError, AttributeError)) as caught:
        launch(kd.cuda_source(SAXPY))
    assert "<cuda_source> is a module, which is not launched. It has several" in str(caught.value)
    assert 'Name one: module.kernel("name", signature)' in str(caught.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("#include <vector>\n", "Leave it out: NVRTC has no standard library. CCCL has a part"),
        ("#include <own/part.h>\n", "Name its folder: options=kd.CudaOptions(include=[…])"),
        (
            "__global__ void g(int *x) { __shared__ int a[99999]; a[*x] = 1; *x = a[3]; }\n",
            "Use less, or declare the array extern __shared__, and pass its bytes: kernel[grid,",
        ),
    ],
)
def test_errors_of_the_compiler_have_remedies(text: str, told: str) -> None:
    made = kd.cuda_source(text + SAXPY, "saxpy", SIGNATURE)
    with pytest.raises(kd.DeviceCodeError) as caught:
        made.resources(arch="sm_90")
    assert told in str(caught.value)


def test_defines_are_a_mapping() -> None:
    with pytest.raises(kd.ArgumentTypeError, match="Write defines="):
        kd.CudaOptions(defines=["WIDTH"])  # type: ignore[arg-type]
