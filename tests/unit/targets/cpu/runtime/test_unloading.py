"""Machine code of kernels: it goes with its kernel, and never while it can run."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from targets.cpu.math.libdevice.functions import _fma
from targets.cpu.regions import compile as compiler
from targets.cpu.runtime import objects
from tests.support.extent import examples, full_beyond
from tests.support.redefining import define, growth
from tests.support.source import exec_source

pytestmark = pytest.mark.skipif(
    not objects.IS_SUPPORTED, reason="code is not linked by ORC on this system"
)


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[weakref.ref[objects.LoadedObject]]:
    """Code that was linked since the test began."""
    found: list[weakref.ref[objects.LoadedObject]] = []

    def load(*args: Any) -> objects.LoadedObject:
        result = objects.load_object(*args)
        found.append(weakref.ref(result))
        return result

    monkeypatch.setattr(compiler, "load_object", load)
    return found


def run(number: int) -> None:
    out, launch = np.zeros(4), define(number).forall(4)
    for _ in range(3):  # the second launch is the native launcher's
        out[:] = 0
        launch(out)
        assert (out == number).all()


def test_code_goes_with_its_kernel(
    loaded: list[weakref.ref[objects.LoadedObject]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "_OBJECTS_A_LINKER", 4)
    kept = define(1000)
    out = np.zeros(4)
    kept.forall(4)(out)
    for number in range(2 * objects._OBJECTS_A_LINKER):
        run(1001 + number)
    gc.collect()
    assert [each() is not None for each in loaded] == [True] + [False] * 8
    out[:] = 0
    kept.forall(4)(out)
    assert (out == 1000).all()


def test_a_bound_launch_keeps_the_code(loaded: list[weakref.ref[objects.LoadedObject]]) -> None:
    out = np.zeros(4)
    bound = define(2000).forall(4).bind(out)
    run(2001)
    gc.collect()
    for _ in range(3):
        out[:] = 0
        bound()
        assert (out == 2000).all()
    del bound
    gc.collect()
    assert all(each() is None for each in loaded)


@pytest.mark.parametrize(
    ("is_bound", "debug"),
    full_beyond(
        [pytest.param(bound, debug) for bound in (False, True) for debug in (False, True)],
        [pytest.param(False, True), pytest.param(True, False)],
    ),
)
def test_a_launch_in_another_thread_keeps_the_code(
    loaded: list[weakref.ref[objects.LoadedObject]], is_bound: bool, debug: bool
) -> None:
    """The call alone holds the launch, and the launch its kernel."""

    @kd.kernel(debug=debug)
    def wait(flag, out):
        i = kd.grid(1)
        kd.atomic.add(flag, 0, 1)
        while kd.atomic.add(flag, 1, 0) == 0:
            pass
        out[i] = 7

    flag, out = np.array([0, 1]), np.zeros(1)
    launches = [wait.forall(1)]
    if is_bound:
        launches = [launches[0].bind(flag, out)]
    arguments = () if is_bound else (flag, out)
    launches[0](*arguments)
    launches[0](*arguments)
    assert flag[0] == 2
    assert out[0] == 7
    flag[1] = out[0] = 0
    del wait
    thread = threading.Thread(target=lambda: launches.pop()(*arguments))
    thread.start()
    while flag[0] < 3:
        pass
    assert not launches
    for number in range(3000, 3004):
        run(number)
    gc.collect()
    assert loaded[0]() is not None
    flag[1] = 1
    thread.join()
    assert out[0] == 7
    del thread
    gc.collect()
    assert all(each() is None for each in loaded)


def test_threads_define_run_and_forget_at_once() -> None:
    def work(first: int) -> None:
        for number in range(first, first + 6):
            run(number)
            gc.collect()

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(work, 4000 + 100 * i) for i in range(3)]:
            done.result()


FORKS = """
import gc, os, signal, sys, threading, time
import numpy as np, kerneldsl as kd
from llvmlite.binding.ffi import lib
from tests.support.redefining import define

def run(number):
    out = np.zeros(4)
    define(number).forall(4)(out)
    assert (out == number).all()

def child():
    if pid := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(30)
    run(2)
    gc.collect()
    os._exit(7)

run(1)
"""


@pytest.mark.parametrize(
    "rest",
    [
        # A thread that is in LLVM, as one is that unloads.
        """
has_begun = threading.Event()
def hold():
    with lib._lock:
        has_begun.set()
        time.sleep(0.3)
thread = threading.Thread(target=hold)
thread.start()
has_begun.wait()
print(child())
thread.join()
""",
        pytest.param(
            """
def work():
    number = 100
    while not is_over:
        run(number)
        number += 1
is_over = False
thread = threading.Thread(target=work)
thread.start()
print({child() for _ in range(4)}.pop())
is_over = True
thread.join()
""",
            marks=pytest.mark.full,
        ),
    ],
    ids=["held", "at work"],
)
def test_a_child_forked_while_a_thread_is_in_llvm_goes_on(rest: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKS + rest],
        cwd=Path(__file__).parents[5],
        env={**os.environ, "KERNELDSL_CACHE": "off", "KERNELDSL_TARGET": "cpu"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("7\n", "", 0)


def test_code_stays_to_the_end_of_the_process(tmp_path: Any) -> None:
    """A daemon thread runs kernels when the interpreter ends."""
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import threading, time
            import numpy as np, kerneldsl as kd

            @kd.kernel
            def double(x):
                i = kd.grid(1)
                if i < x.size:
                    for _ in range(1000):
                        x[i] = x[i] * 1.0000001
                    x[i] = 2

            def forever(launch, x):
                while True:
                    launch(x)

            x = np.ones(10_000)
            launch = double.forall(x.size)
            launch(x)
            threading.Thread(target=forever, args=(launch, x), daemon=True).start()
            time.sleep(0.2)
            del launch, x
            print("ends")
            """
        )
    )
    for _ in range(examples(3, 1)):
        done = subprocess.run(
            [sys.executable, str(program)], capture_output=True, text=True, timeout=120, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "ends\n", "")


#: Kernels by what their code calls that is made for constants of theirs.
STORAGE = {
    "loops": """
@kd.kernel
def k(out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = {number}
""",
    "block": """
@kd.kernel
def k(out):
    shared, own = kd.shared.array(4, "float64"), kd.local.array(2, "float64")
    i = kd.threadIdx.x
    own[i % 2] = {number}
    outlives_the_barrier = out[i] + own[i % 2]
    shared[i] = own[i % 2]
    kd.syncthreads()
    out[i] = outlives_the_barrier + shared[3 - i] - {number}
""",
    "grid": """
@kd.kernel
def k(out):
    shared = kd.shared.array(4, "float64")
    i = kd.threadIdx.x
    shared[i] = {number}
    kd.grid_group().sync()
    out[i] = shared[3 - i]
""",
    "print": """
@kd.kernel
def k(out):
    i = kd.grid(1)
    if i >= 4:
        print("no thread", i)
    else:
        out[i] = {number}
""",
}


@pytest.mark.parametrize("text", STORAGE.values(), ids=STORAGE)
def test_kernels_that_are_alike_share_intrinsics(text: str) -> None:
    """Numba keeps an intrinsic to the end of the process, with all that it refers to."""

    def count() -> int:
        gc.collect()  # what other tests have left in cycles
        return sum(isinstance(each, type(_fma)) for each in gc.get_objects())

    def run_another(number: int) -> int:
        source = "import kerneldsl as kd" + text.format(number=number)
        kernel, out = exec_source(source)["k"], np.zeros(4)
        with kd.use("cpu"):
            kernel[1, 4](out)
        assert (out == number).all()
        return count()

    assert run_another(5001) == run_another(5002) == run_another(5003)


@pytest.mark.full
def test_memory_of_redefined_kernels_comes_back() -> None:
    """What still grows is some 2 KB each, after a first 10 MB in which the allocator settles."""
    count = 200
    _, trimmed = growth(400, count)
    assert trimmed < count * 20_000


def test_a_kernel_that_was_launched_lives_no_longer_than_its_names() -> None:
    gone = []
    with kd.use("cpu"):
        for number in range(3):
            kernel, out = define(number), np.zeros(4)
            kernel.forall(4)(out)
            assert (out == number).all()
            gone.append(weakref.ref(kernel))
            del kernel
    gc.collect()
    assert [each() for each in gone] == [None] * 3
