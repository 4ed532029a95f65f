"""Twice as long a kernel takes twice as long to compile: what is written, and the calls made."""

from __future__ import annotations

import cProfile
import linecache
import pstats
import re
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from targets.cpu.codegen import library
from tests.support.extent import full_beyond

F = 0xFFFFFFFF
#: What a copy of the statements may cost in a long kernel, by its cost in a short one.
_MOST = 1.2

#: What eight copies may cost, by what four do.
_MOST_TWICE = 2.4

#: Slots that are filled where the function begins, for each copy.
_MOST_FILLED = 35

#: The statements that are repeated, after ``t`` and ``v``.
SHAPES = {
    "loops with exchanges": """
    for k in range(n):
        v = (v + kd.popc(kd.ballot_sync(F, v % 3 == 0))) % 10007
        w = v % 5
        while kd.any_sync(F, w > 0):
            w -= 1
            if kd.any_sync(F, w == 2):
                break
            v = (v + np.int64(kd.reduce_add_sync(F, np.uint32(v)))) % 10007
""",
    "masks in masks": """
    if v % 3:
        v = (v + kd.popc(kd.ballot_sync(kd.activemask(), v & 1))) % 10007
        if v % 5:
            v = (v + kd.popc(kd.ballot_sync(kd.activemask(), v & 2))) % 10007
        else:
            v += 1
""",
    "shared arrays": """
    for k in range(n):
        s[t] = v
        kd.syncthreads()
        v = (v + s[(t + 1) % 80]) % 10007
        kd.syncthreads()
        if kd.syncthreads_or(v == 17):
            v = (v * 3 + s[79 - t]) % 10007
        kd.syncthreads()
""",
    "device functions": """
    for k in range(n):
        v = (v + exchanged(v, t)) % 10007
        v = (v + exchanged(v * 2, v)) % 10007
""",
    "groups": """
    for k in range(n):
        v = (v + kd.block.sum(v % 7)) % 10007
        v = (v + kd.block.inclusive_scan(v % 3)) % 10007
""",
    "plain statements": """
    for k in range(n):
        if v % 3 == k:
            v = (v * 5 + t) % 10007
        else:
            v = v + 1 if v & 1 else v - k
""",
}


@kd.func
def exchanged(value, other):
    value = (value ^ np.int64(kd.ballot_sync(F, value & 1))) % 10007
    return value if value > other else other


def kernel_of(shape: str, count: int) -> Any:
    """Return a kernel with so many of the statements."""
    head = "@kd.kernel\ndef kernel(x, out, n):\n    t = kd.threadIdx.x\n    v = x[t]\n"
    head += "    s = kd.shared.array(80, np.int64)\n" if shape == "shared arrays" else ""
    text = f"{head}{SHAPES[shape] * count}    out[t] = v\n"
    name = f"<{count} of {shape}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {"kd": kd, "np": np, "F": F, "exchanged": exchanged}
    exec(compile(text, name, "exec"), space)
    return space["kernel"]


def cost_of(shape: str, count: int) -> tuple[int, int]:
    """Return the statements that are written for a kernel, and the calls that compiling makes."""
    kernel = kernel_of(shape, count)
    profile = cProfile.Profile()
    profile.enable()
    source = kernel.cpu_source(np.zeros(80, np.int64), np.zeros(80, np.int64), 2, block=80)
    profile.disable()
    statements = source.count("\n")
    calls: Any = pstats.Stats(profile)
    return statements, calls.total_calls


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("KERNELDSL_CACHE", "off")
    with kd.use("cpu"):
        yield


@pytest.mark.parametrize("shape", full_beyond(SHAPES, ["shared arrays"]))
def test_work_grows_with_the_length(shape: str) -> None:
    cost_of(shape, 1)  # what is made once for a process
    costs = np.array([cost_of(shape, count) for count in (1, 2, 4, 8)])
    for what, (one, two, four, eight) in zip(("statements", "calls"), costs.T, strict=True):
        assert one < two < four < eight, what
        # From some length on exchanges share loops: a copy costs less then.
        most = max(two - one, (four - two) / 2)
        assert (eight - four) / 4 <= _MOST * most, (what, costs.tolist())


@pytest.mark.parametrize("shape", full_beyond(SHAPES, ["loops with exchanges"]))
def test_long_kernels_give_what_threads_would(shape: str, rng: np.random.Generator) -> None:
    """Halves of exchanges share loops in a long kernel, and not in several short ones."""
    x = rng.integers(0, 10007, 80)
    found = np.full(80, -1)
    kernel_of(shape, 6)[1, 80](x, found, 2)
    expected = x
    for _ in range(6):
        out = np.full(80, -1)
        kernel_of(shape, 1)[1, 80](expected, out, 2)
        expected = out
    np.testing.assert_array_equal(found, expected)


def modules_of(
    shape: str, counts: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> list[tuple[str, float]]:
    """Return LLVM's modules of kernels before any pass, and the processor time of each kernel."""
    texts: list[str] = []
    optimize = library._optimize

    def keep(module: Any, machine: Any) -> Any:
        texts.append(str(module))
        return optimize(module, machine)

    monkeypatch.setattr(library, "_optimize", keep)
    found = []
    for count in counts:
        kernel = kernel_of(shape, count)
        before = time.process_time()
        kernel[1, 80](np.arange(80), np.zeros(80, np.int64), 2)
        found.append((texts[-1], time.process_time() - before))
    return found


@pytest.mark.parametrize("shape", full_beyond(SHAPES, ["masks in masks"]))
def test_code_for_llvm_grows_with_the_length(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slots that are filled where the function begins cost LLVM a search of all blocks each."""
    modules = [text for text, _ in modules_of(shape, (2, 4, 8), monkeypatch)]
    for pattern in ("\n  ", " = alloca "):
        two, four, eight = (text.count(pattern) for text in modules)
        assert two < four < eight
        assert eight <= _MOST_TWICE * four, (pattern, two, four, eight)
    for count, text in zip((2, 4, 8), modules, strict=True):
        first_block = re.split(r'\n"?[\w.]+"?:', text)[1]
        filled = first_block.count("\n  store ")
        assert filled <= _MOST_FILLED * count


def test_time_grows_with_the_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is the processor's; one of three tries is enough, since its speed changes."""
    shape = "loops with exchanges"
    modules_of(shape, (1,), monkeypatch)  # what is made once for a process
    times = [[seconds for _, seconds in modules_of(shape, (4, 8), monkeypatch)] for _ in range(3)]
    assert any(eight <= _MOST_TWICE * four for four, eight in times), times


@pytest.mark.parametrize("kind", ["float32", "int64", "uint8"])
def test_a_sort_is_not_written_out(kind: str) -> None:
    """A block has a known number of keys, and LLVM would unroll loops over lanes and over runs."""

    @kd.kernel(block=128)
    def sorts(x, out):
        i = kd.grid(1)
        out[i] = kd.block.sort(x[i] + 1)

    code = sorts.asm(f"{kind}[::1], {kind}[::1]", block=128, target="cpu")
    instructions = re.findall(r"^\t[a-z]", code, re.MULTILINE)
    assert len(instructions) < 800
