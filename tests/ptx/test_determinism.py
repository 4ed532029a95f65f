"""The same kernel gives the same PTX, in one process and in another, in any order."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba

import kerneldsl as kd
from targets.cuda.compile.compiler import compile_kernel
from tests.ptx.helpers import specialize
from tests.support.extent import examples

_SIGNATURE = "float32[::1], float64[::1]"


@kd.func
def square(v):
    return v * v


@kd.func
def power(v, n):
    return 1.0 if n <= 0 else v * power(v, n - 1)


@numba.njit
def plain(v):
    return round(v, 2)


def kernel(x, out):
    s = kd.shared.array(32, kd.float32)
    i = kd.grid(1)
    s[kd.threadIdx.x] = x[i]
    kd.syncthreads()
    out[i] = square(s[31 - kd.threadIdx.x]) + plain(x[i]) ** 1.5
    print("done", i)


def compile_all() -> str:
    """PTX of the kernel, compiled anew."""
    artifact = compile_kernel(specialize(kernel, _SIGNATURE, lineinfo=True), arch="sm_75")
    return artifact.ptx + artifact.text("llvm")


def test_twice_in_one_process() -> None:
    assert compile_all() == compile_all()


def test_in_processes_with_different_hashes_and_histories() -> None:
    program = "from tests.ptx.test_determinism import compile_all\nprint(compile_all(), end='')"
    before = "from tests.ptx import test_mathematics as m, helpers as h\n" + "\n".join(
        f"h.compile_ptx(m._KERNELS[{name!r}], 'float32[::1], float32[::1]')"
        for name in ("math.sin", "np.power")
    )
    root = Path(__file__).resolve().parents[2]
    texts = {
        subprocess.run(
            [sys.executable, "-c", f"{history}\n{program}"],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(root), "PATH": "/usr/bin:/bin"},
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed, history in (("1", ""), ("2", before))
    }
    assert texts == {compile_all()}


def test_threads_compile_at_once() -> None:
    with ThreadPoolExecutor(8) as pool:
        texts = set(pool.map(lambda _: compile_all(), range(examples(16, 8))))
    assert len(texts) == 1
