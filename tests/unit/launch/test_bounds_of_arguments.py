"""Counts and sizes without sense are refused at once: nothing waits, and no memory is filled."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd


@kd.kernel
def write(x):
    x[kd.grid(1)] = 1


CALLS: dict[str, Callable[[int], Any]] = {
    "streams of a pool": kd.StreamPool,
    "samples": lambda n: write.forall(8).time(np.zeros(8), samples=n),
    "values of a space": lambda n: kd.Space(block=range(1, n)),
    "entries of a log": kd.ErrorLog,
    "elements": kd.empty,
    "elements of page-locked memory": kd.pinned_empty,
    "elements of managed memory": kd.managed_empty,
    "blocks": lambda n: write[n, 1](np.zeros(8)),
    "threads": lambda n: write[1, n](np.zeros(8)),
    "an extent": lambda n: write.forall(n)(np.zeros(8)),
    "shared memory": lambda n: write[1, 8, None, n](np.zeros(8)),
    "a cluster": lambda n: write.forall(8, block=32, cluster=n)(np.zeros(8)),
}


@pytest.mark.parametrize("count", [2**63, 2**64 - 1, 10**30])
@pytest.mark.parametrize("name", CALLS)
def test_what_no_machine_has_is_refused_at_once(name: str, count: int) -> None:
    raised: list[kd.KernelError] = []

    def call() -> None:
        try:
            with kd.use("cpu"):
                CALLS[name](count)
        except kd.KernelError as error:
            raised.append(error)

    # Another thread, since what loops for ever must not take the test run with it.
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "it is still at it"
    (error,) = raised
    assert isinstance(error, ValueError)
    told = (str(count), str(8 * count), "more than 4096 values")
    assert any(text in str(error) for text in told), error


def test_what_is_sensible_is_taken() -> None:
    with kd.use("cpu"):
        pool = kd.StreamPool(64)
        pool.close()
        assert write.forall(8).time(np.zeros(8), samples=2).samples == 2
    assert len(kd.Space(block=range(1, 100))) == 99
    assert len(kd.ErrorLog(0)) == 0
