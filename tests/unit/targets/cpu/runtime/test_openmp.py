"""The pool beside GNU's OpenMP, whose threads must not keep the processors of a launch."""

from __future__ import annotations

import ctypes.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from targets.cpu.runtime.signal_handlers import CAN_LEAVE_CODE

pytestmark = [
    pytest.mark.skipif(not CAN_LEAVE_CODE, reason="no thread watches over launches here"),
    pytest.mark.skipif(ctypes.util.find_library("gomp") is None, reason="there is no libgomp here"),
]

BESIDE = """
import ctypes, os, statistics, sys, time
import numpy as np, kerneldsl as kd

omp = ctypes.CDLL("libgomp.so.1")
region = ctypes.cast(omp.omp_get_num_threads, ctypes.c_void_p)

@kd.kernel
def adds(x):
    i = kd.grid(1)
    if i < x.size:
        x[i] += 1

def threads():
    return len(os.listdir("/proc/self/task"))

def spun():
    before = time.process_time()
    omp.GOMP_parallel(region, None, 2, 0)
    time.sleep(0.05)
    return 1e3 * (time.process_time() - before)

x = np.zeros(1 << 20)
kd.use("cpu")
launch = adds.forall(x.size)
launch(x)
omp.GOMP_parallel(region, None, 2, 0)
ends = time.monotonic() + 0.5
count = 1
while time.monotonic() < ends:
    launch(x)
    count += 1
"""


def run(rest: str) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-c", rest],
        cwd=Path(__file__).parents[5],
        env=os.environ | {"KERNELDSL_THREADING_LAYER": "native", "NUMBA_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [float(word) for word in done.stdout.split()]


def script(folder: Path, rest: str) -> str:
    path = folder / "beside.py"
    path.write_text(BESIDE + rest)
    return f"import runpy; runpy.run_path({str(path)!r})"


def test_a_team_is_there_while_launches_are_shared(tmp_path: Path) -> None:
    """The thread that has it, and the one that is in it, end some seconds after the last one."""
    rest = """
from targets.cpu.runtime.native_tables import SignalWord, WatcherState, table

def settled():
    # No launch is watched, no companion is there, and no thread began or ended for a second.
    ends, last, since = time.monotonic() + 60, 0, 0.0
    while time.monotonic() < ends:
        is_over = table[SignalWord.WATCHER] == WatcherState.ASLEEP
        now = threads() if is_over and not table[SignalWord.COMPANION] else 0
        if not now or now != last:
            last, since = now, time.monotonic()
        elif time.monotonic() > since + 1:
            break
        time.sleep(0.01)
    return last

before = settled()
ends = time.monotonic() + 60
during = 0
while during < before + 2 and time.monotonic() < ends:
    launch(x)
    count += 1
    during = threads()
print(before, during, settled(), int(count == x[0] == x[-1]))
"""
    before, during, after, is_right = run(script(tmp_path, rest))
    assert is_right
    assert during == before + 2
    assert after == before > 0


def test_a_forked_child_launches(tmp_path: Path) -> None:
    rest = """
import warnings
warnings.simplefilter("ignore")
status = []
for _ in range(20):
    launch(x)
    pid = os.fork()
    if pid == 0:
        launch(x)
        os._exit(0)
    status.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
print(sum(map(abs, status)))
"""
    assert run(script(tmp_path, rest)) == [0.0]


@pytest.mark.measures
def test_its_threads_wait_shortly_beside_launches(tmp_path: Path) -> None:
    """They look for the next region for 3 ms and more, without us."""
    rest = """
def sample():
    launch(x)
    time.sleep(0.001)
    return spun()
print(statistics.median(sample() for _ in range(25)))
"""
    (milliseconds,) = run(script(tmp_path, rest))
    assert milliseconds < 1.0
