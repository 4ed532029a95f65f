"""What interpreters complete: the public names of objects, and no others."""

from __future__ import annotations

from typing import Any

import pytest

import kerneldsl as kd


@kd.kernel
def plain(x):
    x[kd.grid(1)] = 1.0


@kd.kernel(space=kd.Space(block=[32, 64]))
def spaced(x):
    x[kd.grid(1)] = 1.0


_INSPECTION = {"asm", "cpu_source", "llvm", "ptx", "resources", "specializations", "time"}
_KERNEL = {"explain", "forall", "function", "options", "source", "typed_source", *_INSPECTION}
_EVENTS = {"device", "handle", "is_closed", "query", "record", "synchronize", "wait", "close"}


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (
            kd.Stream,
            {"capture", "from_foreign", "is_blocking", "is_capturing", "priority", *_EVENTS},
        ),
        (kd.Event, {"elapsed_ms", "is_blocking", "is_timed", *_EVENTS}),
        (
            kd.MemoryPool,
            {"close", "default", "device", "is_closed", "limit", "name", "stats", "trim"},
        ),
        (lambda: plain, _KERNEL),
        (lambda: spaced, {"member", "space", *_KERNEL}),
        (lambda: spaced.member(block=32), {"space", *_KERNEL}),
        (lambda: plain.forall(3), {"bind", "kernel", "plan", "plans", "time", "tune"}),
        (kd.StreamPool, {"close", "device", "stream", "synchronize"}),
    ],
)
def test_names_that_are_completed(make: Any, names: set[str]) -> None:
    with kd.use("cpu"):
        thing = make()
    shown = dir(thing)
    assert {name for name in shown if not name.startswith("__")} == names
    assert shown == sorted(shown)
