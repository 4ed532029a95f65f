"""Kernels of CUDA C++, PTX and cubins on a GPU, against NumPy; nothing here is skipped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.contract import Device
from kerneldsl.launch.native import machine
from kerneldsl.placement.registry import get_target
from tests.cache.programs import run_script
from tests.support.native import is_native, require_native, warm_up

SAXPY = """
extern "C" __global__ void saxpy(float a, const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __fadd_rn(y[i], __fmul_rn(a, x[i]));
}
"""
SIGNATURE = "float32, float32[::1], float32[::1], int32"
SIZES = [1, 31, 257, 1001, (1 << 20) + 3]

REDUCE = """
#include <cub/block/block_reduce.cuh>

template<class T, int BLOCK>
__global__ void block_sums(const T *x, T *sums, long long n) {
    using Reduce = cub::BlockReduce<T, BLOCK>;
    __shared__ typename Reduce::TempStorage room;
    long long i = blockIdx.x * (long long)BLOCK + threadIdx.x;
    T sum = Reduce(room).Sum(i < n ? x[i] : T(0));
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}
"""
REVERSE = """
extern "C" __global__ void reverse(const double *x, double *out, int n) {
    extern __shared__ double room[];
    int t = threadIdx.x, first = blockIdx.x * blockDim.x;
    int count = min((int)blockDim.x, n - first);
    if (t < count) room[t] = x[first + t];
    __syncthreads();
    if (t < count) out[first + t] = room[count - 1 - t];
}
"""
COUNT = """
__device__ unsigned int total;
extern "C" __global__ void add(unsigned int n) { if (threadIdx.x == 0) atomicAdd(&total, n); }
extern "C" __global__ void get(unsigned int *out) { *out = total; }
"""
MIXED = """
struct Pair { float first; double second; };
extern "C" __global__ void mixed(
    bool flag, signed char small, float2 z, double d, const short *x, Pair pair, double *out)
{
    out[0] = flag; out[1] = small; out[2] = z.x; out[3] = z.y; out[4] = d; out[5] = x[1];
    out[6] = pair.first; out[7] = pair.second;
}
"""


def saxpy_on_cpu(a, x, y, n):
    i = kd.grid(1)
    if i < n:
        y[i] += a * x[i]


@pytest.fixture(scope="module")
def saxpy() -> kd.CudaKernel:
    return kd.cuda_source(SAXPY, "saxpy", SIGNATURE, cpu=saxpy_on_cpu)


def _artifact(kernel: kd.CudaKernel) -> Any:
    return kernel.artifact(target="cuda")  # for the first device


def _device() -> Device:
    return get_target("cuda").devices()[0]


def _forms(text: str, name: str, signature: str) -> dict[str, kd.CudaKernel]:
    """Return a kernel from its source, from PTX and from a cubin."""
    source = kd.cuda_source(text, name, signature)
    made = _artifact(source)
    return {
        "source": source,
        "ptx": kd.module(made.text("ptx").encode()).kernel(made.entry_name, signature),
        "cubin": kd.module(made.code("cubin")).kernel(made.entry_name, signature),
    }


def _random(rng: np.random.Generator, n: int) -> np.ndarray[Any, Any]:
    return rng.standard_normal(n).astype(np.float32)


# ------------------------------------------------------------------------- values


@pytest.mark.parametrize("form", ["source", "ptx", "cubin"])
@pytest.mark.parametrize("n", SIZES)
def test_saxpy(rng: np.random.Generator, form: str, n: int) -> None:
    made = _forms(SAXPY, "saxpy", SIGNATURE)[form]
    x, y = _random(rng, n), _random(rng, n)
    expected = y + np.float32(1.7) * x
    for launch in (made.forall(n), made[(n + 127) // 128, 128]):
        # What lies after the end must stay as it is.
        room = kd.to_device(np.concatenate([y, np.full(64, np.nan, np.float32)]))
        launch(1.7, kd.to_device(x), room[:n], n)
        found = room.copy_to_host()
        np.testing.assert_array_equal(found[:n], expected)
        assert np.isnan(found[n:]).all()


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("block", [64, 256])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_a_templated_reduction_with_cub(
    rng: np.random.Generator, n: int, block: int, dtype: str
) -> None:
    in_c = {"float32": "float", "int64": "long long"}[dtype]
    made = kd.cuda_source(
        REDUCE, f"block_sums<{in_c}, {block}>", f"{dtype}[::1], {dtype}[::1], int64", block=block
    )
    x = rng.integers(-100, 100, n).astype(dtype)  # whose sums are exact
    blocks = -(-n // block)
    sums = kd.to_device(np.full(blocks, 99, dtype))
    made.forall(n)(kd.to_device(x), sums, n)
    padded = np.concatenate([x, np.zeros(blocks * block - n, dtype)])
    np.testing.assert_array_equal(sums.copy_to_host(), padded.reshape(blocks, block).sum(axis=1))


@pytest.mark.parametrize("form", ["source", "ptx", "cubin"])
@pytest.mark.parametrize("block", [32, 1000])
def test_dynamic_shared_memory(rng: np.random.Generator, form: str, block: int) -> None:
    made = _forms(REVERSE, "reverse", "float64[::1], float64[::1], int32")[form]
    n = 10_007
    x = rng.standard_normal(n)
    out = kd.full(n, np.nan, np.float64)
    blocks = -(-n // block)
    made[blocks, block, None, 8 * block](kd.to_device(x), out, n)
    expected = [x[first : first + block][::-1] for first in range(0, n, block)]
    np.testing.assert_array_equal(out.copy_to_host(), np.concatenate(expected))


def test_more_shared_memory_than_a_block_gets_without_asking() -> None:
    made = kd.cuda_source(REVERSE, "reverse", "float64[::1], float64[::1], int32")
    x = np.arange(1000.0)
    out = kd.full(1000, np.nan, np.float64)
    made[1, 1000, None, 90_000](kd.to_device(x), out, 1000)
    np.testing.assert_array_equal(out.copy_to_host(), x[::-1])
    limit = _device().limits
    with pytest.raises(kd.KernelError, match="shared memory"):
        made[1, 1000, None, limit.max_shared_memory_per_block + 8](kd.to_device(x), out, 1000)


def test_kernels_of_a_source_share_its_variables() -> None:
    source = kd.cuda_source(COUNT)
    add, get = source.kernel("add", "uint32"), source.kernel("get", "uint32[::1]")
    other = kd.cuda_source(COUNT)
    add_other, get_other = other.kernel("add", "uint32"), other.kernel("get", "uint32[::1]")
    out = kd.full(1, 77, np.uint32)
    for number in (1, 20, 300):
        add[1, 32](number)
    add_other[1, 32](5)
    get[1, 1](out)
    assert out.copy_to_host()[0] == 321
    get_other[1, 1](out)
    assert out.copy_to_host()[0] == 5


def test_parameters_of_every_kind() -> None:
    pair = np.dtype([("first", np.float32), ("second", np.float64)], align=True)
    made = kd.cuda_source(
        MIXED,
        "mixed",
        ("bool", "int8", "complex64", "float64", "int16[::1]", pair, "float64[::1]"),
    )
    x, out = kd.to_device(np.array([1, -2], np.int16)), kd.full(8, np.nan, np.float64)
    value = np.array((0.5, 0.25), pair)[()]
    for _ in range(3):
        made[1, 1](True, -3, 1.5 - 2.5j, 0.1, x, value, out)
        expected = [1, -3, 1.5, -2.5, 0.1, -2, 0.5, 0.25]
        np.testing.assert_array_equal(out.copy_to_host(), expected)
        out = kd.full(8, np.nan, np.float64)


def test_numpy_arrays_are_copied_there_and_back(
    rng: np.random.Generator, saxpy: kd.CudaKernel
) -> None:
    x, y = _random(rng, 1001), _random(rng, 1001)
    expected = y + np.float32(2) * x
    x.flags.writeable = False
    saxpy.forall(1001)(2.0, x, y, 1001)
    np.testing.assert_array_equal(y, expected)


# ------------------------------------------------------------------------- as other kernels


@pytest.mark.parametrize("form", ["source", "ptx", "cubin"])
def test_native_code_repeats_launches(rng: np.random.Generator, form: str) -> None:
    require_native()
    made = _forms(SAXPY, "saxpy", SIGNATURE)[form]
    n = 1001
    x = _random(rng, n)
    on_device, y = kd.to_device(x), kd.zeros(n, np.float32)
    for launch in (made.forall(n), made[8, 128]):
        warm_up(launch, 1.0, on_device, y, n)
        y = kd.zeros(n, np.float32)
        with is_native(launch):
            launch(3.0, on_device, y, n)
            launch(-1.0, on_device, y, 500)
        expected = np.float32(3) * x
        expected[:500] -= x[:500]
        np.testing.assert_array_equal(y.copy_to_host(), expected)
        with machine.suspended():
            launch(1.0, on_device, y, n)
        np.testing.assert_array_equal(y.copy_to_host(), expected + x)


def test_streams(rng: np.random.Generator, saxpy: kd.CudaKernel) -> None:
    n = 100_003
    xs = [_random(rng, n) for _ in range(4)]
    streams = [kd.Stream() for _ in xs]
    outs = []
    for x, stream in zip(xs, streams, strict=True):
        with stream:
            on_device, y = kd.to_device(x), kd.zeros(n, np.float32)
            saxpy.forall(n)(2.0, on_device, y, n)
            saxpy[(n + 255) // 256, 256, stream](1.0, on_device, y, n)
            outs.append(y)
    for x, stream, y in zip(xs, streams, outs, strict=True):
        stream.synchronize()
        np.testing.assert_array_equal(y.copy_to_host(), np.float32(2) * x + x)


def test_a_graph_repeats_launches(rng: np.random.Generator, saxpy: kd.CudaKernel) -> None:
    n = 1001
    x = _random(rng, n)
    on_device, y = kd.to_device(x), kd.zeros(n, np.float32)
    saxpy.forall(n)(0.0, on_device, y, n)
    stream = kd.Stream()
    with stream.capture() as graph:
        saxpy.forall(n)(1.0, on_device, y, n)
        saxpy[(n + 63) // 64, 64](2.0, on_device, y, n)
    assert not y.copy_to_host().any()
    expected = np.zeros(n, np.float32)
    for _ in range(3):
        graph.launch()
        expected = expected + x
        expected = expected + np.float32(2) * x
    stream.synchronize()
    kd.synchronize()
    np.testing.assert_array_equal(y.copy_to_host(), expected)


def test_a_profile_has_times_of_the_device(saxpy: kd.CudaKernel) -> None:
    n = 1 << 20
    x, y = kd.zeros(n, np.float32), kd.zeros(n, np.float32)
    for _ in range(100):
        saxpy.forall(n)(1.0, x, y, n)
    with kd.profile() as found:
        for _ in range(20):
            saxpy.forall(n)(1.0, x, y, n)
    launches = [each for each in found.activities if each.kind == "launch"]
    assert [each.name for each in launches] == ["saxpy"] * 20
    assert all(each.device_ns is not None and each.device_ns > 500 for each in launches)


def test_statistics_count_launches() -> None:
    made = kd.cuda_source(SAXPY, "saxpy", SIGNATURE)
    kd.reset_stats()
    x, y = kd.zeros(1000, np.float32), kd.zeros(1000, np.float32)
    for _ in range(100):
        made.forall(1000)(1.0, x, y, 1000)
    (counted,) = (each for each in kd.stats().kernels if each.kernel.endswith(".saxpy"))
    assert (counted.launches, counted.device) == (100, "cuda:0")


def test_the_driver_agrees_with_the_cubin(saxpy: kd.CudaKernel) -> None:
    for text, name, signature in (
        (SAXPY, "saxpy", SIGNATURE),
        (REVERSE, "reverse", "float64[::1], float64[::1], int32"),
        (REDUCE, "block_sums<float, 256>", "float32[::1], float32[::1], int64"),
    ):
        made = kd.cuda_source(text, name, signature)
        artifact = _artifact(made)
        loaded = _device().load(artifact).resources
        said = artifact.resources()
        assert (loaded.registers, loaded.static_shared_bytes, loaded.max_block_threads) == (
            said.registers,
            said.static_shared_bytes,
            said.max_block_threads,
        )


@pytest.mark.measures
def test_a_plan_and_a_measured_time(saxpy: kd.CudaKernel) -> None:
    n = 1 << 24
    x, y = kd.zeros(n, np.float32), kd.zeros(n, np.float32)
    launch = saxpy.forall(n)
    plan = launch.plan(1.0, x, y, n)
    assert plan.registers == _artifact(saxpy).resources().registers
    timing = launch.time(1.0, x, y, n, samples=15)
    assert 0.3 < timing.min_ns / plan.predicted_ns < 3


# ------------------------------------------------------------------------- what is refused


def test_wrong_code_is_refused_and_nothing_is_lost(saxpy: kd.CudaKernel) -> None:
    x, y = kd.full(100, 2, np.float32), kd.full(100, 1, np.float32)
    artifact = _artifact(saxpy)
    cubin, ptx = artifact.code("cubin"), artifact.text("ptx")
    version = next(line for line in ptx.splitlines() if line.startswith(".version"))
    bad: list[tuple[kd.CudaModule, str, str]] = [
        (kd.cuda_source(SAXPY.replace("n)", "n")), "saxpy", "does not compile"),
        (kd.cuda_source('#include "none.h"\n' + SAXPY), "saxpy", r"none\.h"),
        (kd.cuda_source(SAXPY), "daxpy", "daxpy"),
        (kd.module(cubin[: len(cubin) // 2]), "saxpy", "not a whole cubin"),
        (kd.module(cubin), "daxpy", "has no kernel daxpy"),
        (kd.module(ptx.encode()), "daxpy", "has no kernel daxpy"),
        (kd.module(ptx.replace(version, ".version 9.9").encode()), "saxpy", "is PTX 9.9"),
        (kd.module(ptx.replace("ld.global", "ld.nowhere").encode()), "saxpy", "cannot be loaded"),
    ]
    other = "sm_80" if artifact.arch != "sm_80" else "sm_90"
    elsewhere = saxpy.artifact(arch=other, target="cuda").code("cubin")
    bad.append((kd.module(elsewhere), "saxpy", f"is a cubin for {other}"))
    for module, name, told in bad:
        made = module.kernel(name, SIGNATURE, cpu=saxpy_on_cpu)
        with pytest.raises(kd.DeviceCodeError, match=told):
            made.forall(100)(1.0, x, y, 100)
    for signature, told in (
        ("float32, float32[::1], float32[::1]", "passes 3 parameters"),
        (SIGNATURE.replace("int32", "int64"), "passes 8 bytes as parameter 4"),
    ):
        made = kd.cuda_source(SAXPY, "saxpy", signature)
        with pytest.raises(kd.ArgumentTypeError, match=told):
            made.forall(100)(*(1.0, x, y, 100)[: signature.count(",") + 1])
    assert (y.copy_to_host() == 1).all()
    saxpy.forall(100)(1.0, x, y, 100)
    assert (y.copy_to_host() == 3).all()


# ------------------------------------------------------------------------- the cache

PROGRAM = """
import numpy as np
import kerneldsl as kd

made = kd.cuda_source("scale.cu", "scale<float>", "float32[::1], int32")
n = 1001
x = np.arange(n, dtype=np.float32)
with kd.use("cuda:0"):
    y = kd.to_device(x)
    made.forall(n)(y, n)
    found = y.copy_to_host()
result = [float(found[1]), bool((found == found[1] * x).all())]
"""


def test_a_second_process_finds_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "scale.cu").write_text(
        '#include "factor.h"\n'
        "template<class T> __global__ void scale(T *x, int n) {\n"
        "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "    if (i < n) x[i] *= FACTOR;\n"
        "}\n"
    )
    for factor in (2, 3):
        (tmp_path / "factor.h").write_text(f"#define FACTOR {factor}\n")
        cold = run_script(tmp_path / "script.py", PROGRAM)
        assert cold["result"] == [factor, True]
        assert (cold["hits"], cold["writes"]) == (0, 1)
        warm = run_script(tmp_path / "script.py")
        assert warm["result"] == [factor, True]
        assert (warm["hits"], warm["writes"]) == (1, 0)
        assert not {"numba", "llvmlite", "cuda.core"} & set(warm["modules"])
