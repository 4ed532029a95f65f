"""A process that forks at any moment of another thread's first launch: no child waits for ever."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.extent import examples, full_beyond
from tests.support.seeds import SEED_VARIABLE, fresh_seed

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")

#: Launches in a thread, forks a moment later, and launches in the child, in a child of that, and in
#: the parent. ``sys.argv`` has the moment in seconds.
PROGRAM = """
import os, signal, sys, threading, time
import numpy as np
import kerneldsl as kd

@kd.kernel
def axpy(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]

def launch(dtype):
    z, out = np.ones(1000, dtype), np.zeros(1000, dtype)
    axpy.forall(1000)(dtype(2), z, z, out)
    assert (out == 3).all()

def fork(depth):
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(100)
        launch(np.float32)
        launch(np.float64)
        if depth:
            fork(depth - 1)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0, "the child hung or failed"

thread = threading.Thread(target=launch, args=(np.float32,))
thread.start()
time.sleep(float(sys.argv[1]))
fork(1)
thread.join()
launch(np.int32)
print("done")
"""

POOL = """
import multiprocessing, threading, time, sys
from concurrent.futures import ProcessPoolExecutor
import numpy as np
import kerneldsl as kd

@kd.kernel
def double(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = 2 * x[i]

def total(n):
    out = np.zeros(n)
    double.forall(n)(np.ones(n), out)
    return out.sum()

if __name__ == "__main__":
    thread = threading.Thread(target=total, args=(10,))
    thread.start()
    time.sleep(0.2)
    context = multiprocessing.get_context(sys.argv[1])
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        assert list(pool.map(total, [5, 6, 7])) == [10, 12, 14]
    thread.join()
    print("done")
"""


def _run(folder: Path, text: str, argument: str) -> str:
    program = folder / "program.py"
    program.write_text(text)
    environment = {**os.environ, "KERNELDSL_CACHE": "off", "KERNELDSL_TARGET": "cpu"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(program), argument],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    return done.stdout.strip() or done.stderr


def test_a_fork_at_any_moment(tmp_path: Path) -> None:
    seed = fresh_seed()
    print(f"{SEED_VARIABLE}={seed}")
    moments = random.Random(seed)
    for _ in range(examples(20, 2)):
        moment = moments.choice([0.02, 0.3, 1.5]) * moments.random()
        assert _run(tmp_path, PROGRAM, f"{moment:.4f}") == "done", moment


@pytest.mark.parametrize("method", full_beyond(["fork", "forkserver", "spawn"], ["forkserver"]))
def test_pools_of_processes_beside_a_first_launch(tmp_path: Path, method: str) -> None:
    assert _run(tmp_path, POOL, method) == "done"
