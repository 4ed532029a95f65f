"""The target's own pool of threads, and which pool is chosen."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from llvmlite import binding as llvm

from targets.cpu.runtime import threads
from targets.cpu.runtime.linking import check_object
from targets.cpu.runtime.native_tables import INSTALL_POOL
from targets.cpu.runtime.pool_code import compile_pool
from tests.support.extent import full_beyond

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the pool is there on Linux alone")


@LINUX
@pytest.mark.parametrize("workers", full_beyond([2, 3, 7], [3]))
def test_launches(workers: int) -> None:
    module = "tests.unit.targets.cpu.runtime.pool_launches"
    done = subprocess.run(
        [sys.executable, "-m", module, str(workers)],
        cwd=Path(__file__).parents[5],
        env=os.environ | {"KERNELDSL_THREADING_LAYER": "native", "NUMBA_NUM_THREADS": str(workers)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr


@LINUX
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_it_is_compiled_for(monkeypatch: pytest.MonkeyPatch, machine: str) -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(f"{machine}-unknown-linux-gnu")
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(llvm.Target, "from_default_triple", lambda: target)
    check_object(compile_pool(), INSTALL_POOL)


@pytest.mark.parametrize("missing", range(len(threads.LAYERS) - 1))
def test_the_next_layer_is_taken_where_one_cannot_be_loaded(
    monkeypatch: pytest.MonkeyPatch, missing: int
) -> None:
    def load(name: str) -> threads.ThreadingLayer:
        if name in threads.LAYERS[:missing]:
            raise ImportError(name)
        return threads.ThreadingLayer(name, 2, survives_fork=True)

    monkeypatch.delenv("KERNELDSL_THREADING_LAYER", raising=False)
    monkeypatch.setattr(threads, "_load", load)
    assert threads._choose().name == threads.LAYERS[missing]
