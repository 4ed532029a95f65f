"""A second process finds what the first one compiled, and needs no compiler for it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cache.programs import run_script
from tests.cache.trials import FACTOR, Trials
from tests.support.extent import full_beyond, sample

CPU = """
import math
import numpy as np
import kerneldsl as kd

@kd.func
def squared(x):
    return x * x

@kd.kernel
def elements(a, x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * squared(x[i]) + math.sin(x[i])

@kd.kernel(block=64)
def reverse(x, out):
    s = kd.shared.array(64, np.float64)
    i = kd.grid(1)
    t = kd.threadIdx.x
    s[t] = x[i]
    kd.syncthreads()
    out[i] = s[63 - t]

@kd.kernel
def count(x, out):
    i = kd.grid(1)
    if i < x.size and x[i] > 10:
        kd.atomic.add(out, 0, 1)

@kd.kernel
def planes(x, out):
    i, j = kd.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = x[j, i] + 1j

n = 64 * 700
x = np.arange(n) / 7.0
with kd.use("cpu"):
    a = np.full(n, np.nan)
    elements.forall(n)(2.0, x, a)
    b = np.full(n, np.nan)
    reverse.forall(n)(x, b)
    c = np.zeros(1, np.int64)
    count.forall(n)(x, c)
    d = np.full((60, 80), np.nan, np.complex128)
    planes.forall(60, 80)(np.arange(4800.0).reshape(80, 60), d)
    planes[(60, 80), (1, 1)](np.arange(4800.0).reshape(80, 60), d)
assert np.allclose(a, 2 * x * x + np.sin(x))
assert (b.reshape(-1, 64) == x.reshape(-1, 64)[:, ::-1]).all()
assert c[0] == (x > 10).sum()
assert (d == np.arange(4800.0).reshape(80, 60).T + 1j).all()
result = [float(a.sum()), float(b[7]), int(c[0])]
"""

NULL = """
import math
import numpy as np
import kerneldsl as kd

@kd.kernel
def elements(a, x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + 1

n = 1000
with kd.use("null"):
    elements.forall(n)(2.0, np.ones(n, np.float32), np.ones(n, np.float32))
    elements[8, 128](2.0, np.ones(n, np.float32), np.ones(n, np.float32))
ptx = elements.ptx("float64, float32[::1], float32[::1]", arch="sm_90")
result = ptx
"""
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="object code is kept on Linux alone")


@LINUX
@pytest.mark.parametrize(
    "layer", full_beyond(["native", "tbb", "omp", "workqueue", "serial"], ["native"])
)
def test_the_cpu_starts_without_numba(tmp_path: Path, layer: str) -> None:
    threads = {"KERNELDSL_THREADING_LAYER": layer, "NUMBA_NUM_THREADS": "3"}
    try:
        cold = run_script(tmp_path / "script.py", CPU, **threads)
    except AssertionError as error:
        if "cannot be loaded" in str(error):
            pytest.skip(f"the threading layer {layer} is not installed")
        raise
    assert (cold["hits"], cold["misses"]) == (0, {"absent": 5})
    assert cold["writes"] == 5
    warm = run_script(tmp_path / "script.py", **threads)
    assert warm["result"] == cold["result"]
    assert (warm["hits"], warm["misses"], warm["writes"]) == (5, {}, 0)
    assert warm["modules"] == ["llvmlite"]


def test_a_gpu_starts_without_numba_and_llvm(tmp_path: Path) -> None:
    cold = run_script(tmp_path / "script.py", NULL)
    # What was compiled for a described device is what a real one of its architecture asks for.
    assert (cold["hits"], cold["misses"]) == (1, {"absent": 2})
    warm = run_script(tmp_path / "script.py")
    assert warm["result"] == cold["result"]
    assert (warm["hits"], warm["misses"]) == (3, {})
    assert not {"numba", "llvmlite", "cuda.core"} & set(warm["modules"])


#: What a first launch has no use for, and what waits until it is asked for.
PUT_OFF = (
    *("kerneldsl.planner.describe", "kerneldsl.planner.plan", "kerneldsl.planner.space"),
    *("kerneldsl.memory.copies", "kerneldsl.launch.recovery", "kerneldsl.placement.scores"),
    *(
        "kerneldsl.kernels.spaces",
        "kerneldsl.launch.timing",
        "numpy.typing",
        "targets.cuda.compile.compiler",
    ),
    *("kerneldsl.planner.described", "kerneldsl.launch.specialization_info", "statistics"),
    *("kerneldsl.contract.checks", "kerneldsl.contract.native"),
)
LAUNCH = f"""
import sys
import numpy as np
import kerneldsl as kd

@kd.kernel
def axpy(a, x, y):
    i = kd.grid(1)
    if i < y.size:
        y[i] = a * x[i] + y[i]

with kd.use("null"):
    x, y = kd.zeros(1000, np.float32), kd.zeros(1000, np.float32)
    axpy.forall(1000)(np.float32(2), x, y)
    kd.synchronize()
result = [name for name in {PUT_OFF} if name in sys.modules]
"""


def test_a_warm_launch_imports_only_what_it_needs(tmp_path: Path) -> None:
    assert run_script(tmp_path / "script.py", LAUNCH)["result"] == ["targets.cuda.compile.compiler"]
    warm = run_script(tmp_path / "script.py")
    assert (warm["hits"], warm["misses"]) == (1, {})
    assert warm["result"] == []


#: A launch on the CPU, and the modules that it imports.
CPU_LAUNCH = """
import sys
import numpy as np
import kerneldsl as kd

@kd.kernel
def axpy(a, x, y):
    i = kd.grid(1)
    if i < y.size:
        y[i] = a * x[i] + y[i]

x, y = np.ones((2, 100_000), np.float32)
with kd.use("cpu"):
    axpy.forall(y.size)(np.float32(2), x, y)
assert (y == 3).all()
result = list(sys.modules)
"""
#: What compiles, warns, plans for GPUs, analyzes barriers, or rewrites rows, tiles and literals.
NOT_ON_THE_CPU = {
    *(
        "targets.cpu.regions.compile",
        "targets.cpu.runtime.pool_code",
        "targets.cpu.runtime.signal_handlers",
    ),
    *(
        "targets.cpu.runtime.faults",
        "targets.cpu.runtime.runner_code",
    ),
    *("kerneldsl.shipping", "kerneldsl.memory.pools"),
    *("kerneldsl.planner.choose", "kerneldsl.launch.fitted_models", "kerneldsl.memory.arrays"),
    *("kerneldsl.ir.uniformity", "kerneldsl.ir.barriers"),
    "kerneldsl.frontend.rows.expand",
    *("decimal", "pickletools"),
}
#: Modules of ours that a launch imports where all of its code is in the cache.
MOST_MODULES = 245


@LINUX
def test_a_warm_launch_on_the_cpu_compiles_nothing(tmp_path: Path) -> None:
    cold = run_script(tmp_path / "script.py", CPU_LAUNCH)["result"]
    assert set(cold) >= {"targets.cpu.regions.compile", "targets.cpu.runtime.pool_code"}
    warm = run_script(tmp_path / "script.py")
    assert (warm["hits"], warm["misses"]) == (1, {})
    assert not set(warm["result"]) & NOT_ON_THE_CPU
    own = [name for name in warm["result"] if name.startswith(("kerneldsl", "targets"))]
    assert len(own) <= MOST_MODULES


def test_off(tmp_path: Path, folder: Path) -> None:
    for _ in sample(range(2), 1):
        found = run_script(tmp_path / "script.py", NULL, KERNELDSL_CACHE="off")
        assert "numba" in found["modules"]
        assert (found["hits"], found["misses"]) == (0, {})
    assert not folder.exists()


@pytest.mark.full
@LINUX
def test_numba_comes_after_a_warm_start(tmp_path: Path) -> None:
    """The pool of threads that was loaded by its path, and Numba's own use of it."""
    more = """
import numba
@numba.njit(parallel=True)
def total(x):
    s = 0.0
    for i in numba.prange(x.size):
        s += x[i]
    return s
assert total(np.ones(100000)) == 100000.0
@kd.kernel
def later(x):
    i = kd.grid(1)
    x[i] = i
y = np.zeros(50000)
with kd.use("cpu"):
    later.forall(50000)(y)
    elements.forall(n)(2.0, x, a)
assert (y == np.arange(50000)).all()
assert np.allclose(a, 2 * x * x + np.sin(x))
for form in (elements.llvm, elements.asm):
    assert "elements" in form(2.0, x, a, target="cpu", forall=1), "it is compiled anew to be shown"
"""
    run_script(tmp_path / "script.py", CPU)
    for _ in sample(range(2), 1):
        found = run_script(tmp_path / "more.py", CPU + more)
        assert found["hits"] >= 5


@LINUX
@pytest.mark.full
def test_damaged_entries_give_right_results(tmp_path: Path, folder: Path, trials: Trials) -> None:
    """The whole way: a bit of each entry is flipped, and the program does not notice."""
    right = run_script(tmp_path / "script.py", CPU)
    for offset in sample((20, -200, -40), 1):
        for path in (folder / "entries").iterdir():
            data = bytearray(path.read_bytes())
            data[offset] ^= 1
            path.write_bytes(data)
        found = run_script(tmp_path / "script.py")
        trials.note("right" if found["result"] == right["result"] else "wrong")
        assert (found["hits"], found["writes"]) == (0, 5)
    trials.check()


@pytest.mark.full
@LINUX
def test_code_that_calls_what_is_not_there_is_compiled_anew(tmp_path: Path, folder: Path) -> None:
    """A sound entry that cannot be linked: LLVM says so, and the process goes on."""
    from kerneldsl.cache.entry import decode, encode

    right = run_script(tmp_path / "script.py", CPU)
    for path in (folder / "entries").iterdir():
        entry = decode(path.read_bytes())
        sections = dict(entry.sections)
        code = sections["object"]
        if b"\0sin\0" in code:
            sections["object"] = code.replace(b"\0sin\0", b"\0s1n\0")
        else:
            sections["object"] = code[: len(code) // 2]
        path.write_bytes(encode(entry.key, sections))
    found = run_script(tmp_path / "script.py")
    assert found["result"] == right["result"]
    assert found["misses"] == {"unusable": 5}
    assert run_script(tmp_path / "script.py")["hits"] == 5


HANDLERS = """
import signal, sys
import numpy as np
import kerneldsl as kd
from targets.cpu.runtime import signals

@kd.kernel
def k(x):
    i = kd.grid(1)
    if i < x.size:
        x[i] += 1.0

x = np.zeros(100)
with kd.use("cpu"):
    k.forall(100)(x)
is_compiled = "targets.cpu.runtime.signal_handlers" in sys.modules
result = [x.sum(), signals.watch_address() != 0, is_compiled]
"""


@LINUX
@pytest.mark.full
def test_handlers_of_signals_are_compiled_once(tmp_path: Path, folder: Path) -> None:
    """They come with the kernel's code; where they are of no use, they are compiled anew."""
    from kerneldsl.cache.entry import decode, encode

    assert run_script(tmp_path / "script.py", HANDLERS)["result"] == [100.0, True, True]
    found = run_script(tmp_path / "script.py")
    assert (found["hits"], found["result"]) == (1, [100.0, True, False])
    (path,) = (folder / "entries").iterdir()
    entry = decode(path.read_bytes())
    code = entry.sections["handlers"]
    for damaged in (b"", b"no object file", code[: len(code) // 2], code.replace(b"poll", b"p0ll")):
        path.write_bytes(encode(entry.key, {**entry.sections, "handlers": damaged}))
        found = run_script(tmp_path / "script.py")
        assert (found["hits"], found["result"]) == (1, [100.0, True, True])


def test_a_warning_is_given_again(tmp_path: Path) -> None:
    """What the compiler warns of is said in every process, found or compiled."""
    text = """
import warnings
import numpy as np
import kerneldsl as kd
@kd.kernel
def k(x):
    s = kd.shared.array(32, np.float64)
    t = kd.threadIdx.x
    if x[t] > 0:
        kd.syncthreads()
    x[t] = s[t]
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    k.ptx("float64[::1]", arch="sm_90")
result = [[w.category.__name__, str(w.message)] for w in caught]
"""
    messages = []
    for hits in (0, 1):
        found = run_script(tmp_path / "script.py", text)
        ((category, message),) = found["result"]
        assert category == "BarrierDivergenceWarning"
        assert found["hits"] == hits
        messages.append(message)
    assert messages[0] == messages[1]
    assert "`x[t]` is loaded from a varying index" in messages[0]
    assert "numba" not in found["modules"]


def test_arguments_that_overlap_are_refused_of_stored_code(tmp_path: Path) -> None:
    """What a barrier needs of the arguments, and of the states of chains, is stored with code."""
    text = """
import numpy as np
import kerneldsl as kd
@kd.kernel
def walk(flags, out):
    while flags[0] != 0:
        out[kd.threadIdx.x] = 1.0
        kd.syncthreads()
@kd.kernel
def number(state, out):
    part = kd.chain.next(state)
    out[part] = kd.chain.before(state, part, 1)
def message(call):
    try:
        call()
    except kd.KernelError as error:
        return str(error)
x = np.zeros(8)
with kd.use("cpu"):
    apart = message(lambda: walk[1, 4](np.zeros(2), x))
    result = [apart, *(message(lambda: walk[1, 4](x[:2], x)) for _ in range(2))]
    result.append(message(lambda: number[5, 4](np.zeros(14, np.uint64), np.zeros(5))))
assert not x.any()
"""
    first, second = (run_script(tmp_path / "script.py", text) for _ in range(2))
    assert first["result"] == second["result"]
    apart, overlapping, again, chain = second["result"]
    assert apart is None
    assert overlapping == again
    assert "`flags[0]` is loaded from memory that may be written before" in overlapping
    assert "state has 14 elements" in chain
    assert (first["hits"], second["hits"]) == (0, 2)
    assert "numba" not in second["modules"]


@pytest.mark.full
def test_code_with_a_large_captured_array_is_kept(tmp_path: Path) -> None:
    """The array is not copied into the code, which has a symbol of its contents in its place."""
    text = """
import numpy as np
import kerneldsl as kd
table = np.arange(300_000.0) + %d
table.flags.writeable = False
@kd.kernel
def k(out):
    i = kd.grid(1)
    out[i] = table[i]
out = np.zeros(300_000)
with kd.use("cpu"):
    k.forall(300_000)(out)
assert (out == table).all()
result = float(out.sum())
"""
    for added, counts in ((0, (0, 1)), (0, (1, 0)), (1, (0, 1)), (0, (1, 0))):
        found = run_script(tmp_path / "script.py", text % added)
        assert (found["hits"], found["writes"]) == counts
        assert found["result"] == sum(range(300_000)) + added * 300_000


@pytest.mark.full
def test_another_libdevice(tmp_path: Path) -> None:
    """What was made with one libdevice is not used beside another; what needs none is."""
    text = """
import math
import kerneldsl as kd
import targets.cuda.compile.stored as stored
if %r:
    stored._digest_of_libdevice = lambda: %r
@kd.kernel
def with_it(x):
    x[0] = math.sin(x[1])
@kd.kernel
def without(x):
    x[0] = x[1] + 1
result = [k.ptx("float64[::1]", arch="sm_90") for k in (with_it, without)]
"""
    script = tmp_path / "script.py"
    first = run_script(script, text % (False, None))
    assert run_script(script, text % (False, None))["hits"] == 2
    other = run_script(script, text % (True, "another"))
    assert (other["hits"], other["misses"]) == (1, {"unusable": 1})
    assert other["result"] == first["result"]
    back = run_script(script, text % (False, None))
    assert back["misses"] == {"unusable": 1}, "it was written for the other one"
    missing = run_script(script, text % (True, None))
    assert missing["hits"] == 2, "a machine without libdevice uses what another one made"


CONFORMANCE = """
import numpy as np
from tests.conformance.kernels import CASES
result = 0
for case in CASES[{first}::{step}]:
    case.check("cpu", np.random.default_rng({seed}))
    result += 1
"""


@pytest.mark.full
@LINUX
def test_cases_of_the_conformance_suite(tmp_path: Path, trials: Trials, rng) -> None:
    """Each case with code that was compiled, and with code that was found: both compute right."""
    step = max(1, 60 // FACTOR)
    first = int(rng.integers(step))
    for seed in (1, 2):
        text = CONFORMANCE.format(first=first, step=step, seed=seed)
        found = run_script(tmp_path / "script.py", text)
        trials.add({"right": found["result"]})
    assert found["hits"] >= found["result"] // 2
    assert set(found["misses"]) <= {"absent", "uncacheable"}
    trials.check()


LARGE_ARRAYS = """
import numpy as np
import kerneldsl as kd

VALUES = np.arange(3e5)
BY_COLUMNS = np.asfortranarray(np.arange(9e4).reshape(300, 300))

@kd.kernel
def looked_up(out):
    i = kd.grid(1)
    out[i] = VALUES[i] + BY_COLUMNS[i % 300, i % 7]

out, i = np.zeros(1000), np.arange(1000)
with kd.use("cpu"):
    looked_up.forall(1000)(out)
result = bool((out == VALUES[:1000] + BY_COLUMNS[i % 300, i % 7]).all())
"""


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="object code is kept on Linux alone")
def test_code_with_large_captured_arrays_finds_those_of_its_process(tmp_path: Path) -> None:
    first = run_script(tmp_path / "script.py", LARGE_ARRAYS)
    second = run_script(tmp_path / "script.py")
    assert (second["hits"], second["misses"]) == (1, {})
    assert first["result"]
    assert second["result"]
