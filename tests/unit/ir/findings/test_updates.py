"""Elements that many threads update without an atomic function are warned of."""

from __future__ import annotations

import warnings

import pytest

import kerneldsl as kd
from tests.support.source import exec_source

_KERNEL = """
import numpy as np
import kerneldsl as kd

@kd.kernel
def kernel(x, out, n):
    i = kd.grid(1)
{}
"""
_SIGNATURE = "float32[::1], float32[::1], int64"


def _compile(body: str, signature: str = _SIGNATURE, forall: int | None = 1) -> None:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    kernel = exec_source(_KERNEL.format(lines))["kernel"]
    kernel.artifact(signature, forall=forall, target="null")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("out[0] += x[i]", r"out\[0\] is one element .*Write kd.atomic.add\(out, 0, x\[i\]\)"),
        ("if i < n:\n    out[n] -= 2.0", r"out\[n\] .*Write kd.atomic.sub\(out, n, 2.0\)"),
        ("if x[i] > 0:\n    out[0] += 1", r"Write kd.atomic.add\(out, 0, 1\)"),
        ("if x[i] == n:\n    out[0] += 1", r"Write kd.atomic.add\(out, 0, 1\)"),
        ("out[0] = out[0] + x[i]", r"out\[0\] is .*Use a function of kd.atomic, or"),
        ("out[0] = max(out[0], x[i])", r"out\[0\] is .*Use a function of kd.atomic, or"),
        ("for k in range(n):\n    out[k] += x[i]", r"Write kd.atomic.add\(out, k, x\[i\]\)"),
        ("if i >= x.size:\n    return\nout[0] *= x[i]", r"Use a function of kd.atomic, or"),
    ],
)
def test_updates_of_one_element(body: str, said: str) -> None:
    with pytest.warns(kd.KernelWarning, match=said) as found:
        _compile(body)
    assert len(found) == 1


@pytest.mark.parametrize(
    "body",
    [
        "out[i] += x[i]",  # each thread has an element
        "out[0] = x[i]",  # nothing is read
        "out[0] = x[0] + 1",
        "if i == 0:\n    out[0] += x[i]",  # one thread
        "if i < 1:\n    out[0] += x[i]",
        "if not i:\n    out[0] += x[i]",
        "if i == n - 1:\n    out[0] += x[i]",
        "if i > 0:\n    return\nout[0] += x[i]",
        "if i < n and i == 3:\n    out[0] += x[i]",
        "for turn in range(n):\n    if i == turn:\n        out[0] += x[i]",
        "for k in range(x.size):\n    out[0] += x[k]",  # no index: a launch of one thread
        "for k in range(i, n):\n    out[k] += 1.0",  # where each thread begins elsewhere
        "out[int(x[i])] += 1.0",  # other elements, perhaps
        "kd.atomic.add(out, 0, x[i])",
        "mine = kd.local.array(2, np.float32)\nmine[0] += x[i]\nout[i] = mine[0]",
        "while kd.atomic.cas(out, 0, 0, 1) != 0:\n    pass\nout[1] += x[i]",  # a lock
    ],
)
def test_other_updates(body: str) -> None:
    signature = "float32[::1], int32[::1], int64" if "cas" in body else _SIGNATURE
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "a value of type", kd.KernelWarning)
        warnings.filterwarnings("ignore", ".*cuts off its fraction", kd.KernelWarning)
        _compile(body, signature)


def test_updates_of_a_device_function_are_found_at_its_line() -> None:
    kernel = exec_source("""
import kerneldsl as kd

@kd.func
def add(out, value):
    out[0] += value

@kd.kernel
def kernel(x, out):
    add(out, x[kd.grid(1)])
""")["kernel"]
    with pytest.warns(kd.KernelWarning, match=r"add: out\[0\] is .*\(line 6\).*add\(out, 0, value"):
        kernel.artifact("float32[::1], float32[::1]", forall=1, target="null")


def test_updates_of_shared_memory_in_blocks() -> None:
    kernel = exec_source("""
import numpy as np
import kerneldsl as kd

@kd.kernel
def kernel(x, out):
    total = kd.shared.array(1, np.float32)
    if kd.threadIdx.x == 0:
        total[0] = 0
    kd.syncthreads()
    total[0] += x[kd.threadIdx.x]
    kd.syncthreads()
    if kd.threadIdx.x == 0:
        out[kd.blockIdx.x] = total[0]
""")["kernel"]
    with pytest.warns(kd.KernelWarning, match=r"total\[0\] is one element .*\(line 11\)"):
        kernel.artifact("float32[::1], float32[::1]", block=64, target="null")
