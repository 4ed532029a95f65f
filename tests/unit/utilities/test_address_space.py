"""A limit on addresses (``ulimit -v``) ends in an error of ours, not in an abort or a hang."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kerneldsl.errors import CompileError
from kerneldsl.utilities import address_space
from kerneldsl.utilities.address_space import Addresses, require_addresses

resource = pytest.importorskip("resource", reason="limits are POSIX's")
MIB = 2**20

limited = pytest.mark.skipif(
    not os.path.exists("/proc/self/statm"), reason="the system does not tell the addresses in use"
)

PROGRAM = """
import resource, sys
import numpy as np
import kerneldsl as kd

@kd.kernel
def double(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = 2 * x[i]

x, out = np.ones(1000, np.float32), np.empty(1000, np.float32)
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + int(sys.argv[1]) * 2**20,) * 2)
try:
    double.forall(out.size)(x, out)
except kd.CompileError as error:
    print(error)
else:
    print("it ran", out.sum())
"""

THREADS = """
import resource, sys
from targets.cpu.runtime import threads
from targets.cpu.runtime.processors import startable_threads
from kerneldsl.errors import TargetUnavailableError

threads._import_pool(threads._MODULES[sys.argv[1]])
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
stack = 8 * 2**20
resource.setrlimit(resource.RLIMIT_STACK, (stack, resource.getrlimit(resource.RLIMIT_STACK)[1]))
resource.setrlimit(resource.RLIMIT_AS, (used + 5 * stack, ) * 2)
threads._runnable_count = lambda: 64
try:
    threads._load(sys.argv[1])
except TargetUnavailableError as error:
    print(error.value, error)
"""


def run(code, tmp_path, *arguments, **variables):
    path = tmp_path / "program.py"
    path.write_text(code)
    environment = os.environ | {"KERNELDSL_TARGET": "cpu"} | variables
    done = subprocess.run(
        [sys.executable, path, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=100,
        env=environment,
    )
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr[-2000:])
    return done.stdout


@limited
@pytest.mark.parametrize("cache", ["on", "off"])
@pytest.mark.parametrize("left_mib", [60, 170, 220])
def test_little_left(tmp_path, cache, left_mib):
    variables = {"KERNELDSL_CACHE": cache, "KERNELDSL_CACHE_DIR": str(tmp_path / "cache")}
    said = run(PROGRAM, tmp_path, left_mib, **variables)
    assert "of addresses are left" in said
    assert "ulimit -v unlimited" in said


@limited
def test_enough_left(tmp_path):
    left = sum(address_space._IMPORTS.values()) // MIB + 30
    assert "it ran 2000.0" in run(PROGRAM, tmp_path, left, KERNELDSL_CACHE="off")


@limited
@pytest.mark.parametrize("layer", ["omp", "workqueue"])
def test_threads_that_cannot_be_started(tmp_path, layer):
    from targets.cpu.runtime import threads

    try:
        threads._import_pool(threads._MODULES[layer])
    except (ImportError, OSError) as error:
        pytest.skip(f"the layer cannot be loaded: {error}")
    said = run(THREADS, tmp_path, layer)
    started = int(said.split()[0])
    assert 0 < started < 64
    assert f"set NUMBA_NUM_THREADS to {started} or less" in said


# ------------------------------------------------------------------------------- what is counted


@pytest.fixture
def nothing_imported(monkeypatch):
    for module in address_space._IMPORTS:
        monkeypatch.delitem(sys.modules, module, raising=False)


@pytest.mark.usefixtures("nothing_imported")
def test_what_is_missing():
    needed = 158 + 16 + 24 + 24 + 8
    assert Addresses(300 * MIB, 100 * MIB).missing() == needed * MIB
    assert Addresses((100 + needed) * MIB, 100 * MIB).missing() is None
    assert Addresses(300 * MIB, 100 * MIB).missing(compiles=False) is None


def test_what_the_error_says(monkeypatch):
    few = Addresses(100 * MIB, 99 * MIB)
    monkeypatch.setattr(Addresses, "limited", classmethod(lambda cls: few))
    with pytest.raises(
        CompileError, match=r"compiling k needs .* and 1 MiB of addresses are left"
    ) as caught:
        require_addresses("compiling k")
    assert caught.value.value == MIB
    assert "100 MiB (RLIMIT_AS, ulimit -v); 99 MiB are in use" in str(caught.value)


def test_without_a_limit_one_call_is_made(monkeypatch):
    calls = []
    monkeypatch.setattr(
        resource, "getrlimit", lambda which: calls.append(which) or (resource.RLIM_INFINITY,) * 2
    )
    require_addresses("compiling k")
    assert calls == [resource.RLIMIT_AS]
