"""Kernels without one of the optimizing passes: other code, and the same results."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.contract import ArrayPromises, Promises
from kerneldsl.language.kinds import array_kinds
from kerneldsl.language.signatures import parse_signature
from targets.cuda.compile.compiler import compile_kernel
from targets.cuda.compile.pipeline import PASSES
from tests.conformance.kernels import QUICK_CASES
from tests.ptx.helpers import assemble_together, newer_words, specialize
from tests.sanitizer.selection import intrinsics_of
from tests.support.extent import full_beyond
from tests.support.ptx_machine import run_thread

_ARCH, _PTX_VERSION = "sm_90", "8.7"
_NAMES = [each.name for each in PASSES]
_INTEGERS = "int64[::1], int64[::1]"
_WORDS = "uint32[::1], uint32[::1]"


def strided(x, out):
    t = kd.grid(1)
    total = 0
    for i in range(t, x.size, kd.gridsize(1)):
        total = total * 3 + x[i]
    out[t] = total


def of_a_local_array(x, out):
    own = kd.local.array(64, np.int64)
    t = kd.threadIdx.x
    for k in range(64):
        own[k] = x[t + k * 32] if t + k * 32 < x.size else 0
    for k in range(32):
        value = own[k]
        own[k] = own[63 - k]
        own[63 - k] = value
    for k in range(64):
        if t + k * 32 < out.size:
            out[t + k * 32] = own[k]


def halved(x, out):
    t = kd.threadIdx.x
    step = kd.blockDim.x // 2
    while step > 0:
        if t < step:
            out[t] = x[t + step]
        step //= 2


def divided(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i] // x[i + 1] + x[i] % x[i + 2]


def iterated(x, out):
    t = kd.threadIdx.x
    a, b, count = x[t], x[t + 1], 0
    while count < out.size and (a + b) & 15 != 7:
        a, b = a * a - b * b + 1, 2 * a * b + 3
        count += 1
    out[t] = count


def counted(x, out):
    t = kd.threadIdx.x
    total = 0
    for k in range(x.size):
        total = total * 5 + x[k]
    out[t] = total


def left_early(x, out):
    t = kd.threadIdx.x
    count = 0
    value = x[t] & 1023
    while count < out.size and value < 100000:
        value = value * 3 + 1
        count += 1
    out[t] = count


def checksum(x, out):
    i = kd.grid(1)
    crc = x[i]
    for _ in range(8):
        low = np.uint32(crc & np.uint32(1))
        crc = np.uint32((crc >> np.uint32(1)) ^ (low * np.uint32(0xEDB88320)))
    out[i] = crc


def generated(x, out):
    i = kd.grid(1)
    state = x[i]
    total = np.uint32(0)
    for _ in range(4):
        state = np.uint32(state * np.uint32(1664525) + np.uint32(1013904223))
        total ^= state >> np.uint32(8)
    out[i] = total


def neighbours(x, out):
    i, j = kd.grid(2)
    if 0 < i < x.shape[0] - 1 and 0 < j < x.shape[1] - 1:
        out[i, j] = x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]


#: A kernel that each pass is for, and its signature.
_KERNELS: dict[str, tuple[Callable[..., Any], str]] = {
    "unroll-strides": (strided, _INTEGERS),
    "unroll-array-loops": (of_a_local_array, _INTEGERS),
    "narrow-variables": (halved, _INTEGERS),
    "simplify-divisions": (divided, _INTEGERS),
    "coalesce-copies": (iterated, _INTEGERS),
    "merge-exits": (iterated, _INTEGERS),
    "count-loops-down": (counted, _INTEGERS),
    "narrow-counters": (left_early, _INTEGERS),
    "multiply-by-bits": (checksum, _WORDS),
    "chain-affine-steps": (generated, _WORDS),
    "narrow-addresses": (neighbours, "int64[:, ::1], int64[:, ::1]"),
}


@cache
def _artifact(name: str, *disabled: str) -> Any:
    function, signature = _KERNELS[name]
    count = len(list(array_kinds(parse_signature(signature))))
    promises = Promises((ArrayPromises(),) * count, is_disjoint=True, is_narrow=True)
    specialization = specialize(function, signature, promises=promises, disabled_passes=disabled)
    return compile_kernel(specialization, arch=_ARCH, ptx_version=_PTX_VERSION)


def test_each_pass_has_a_kernel() -> None:
    assert list(_KERNELS) == _NAMES


@pytest.mark.parametrize("name", _NAMES)
def test_a_kernel_has_other_code_without_its_pass(name: str) -> None:
    assert _artifact(name, name).ptx != _artifact(name).ptx
    others = [each for each in _NAMES if each != name]
    assert _artifact(name, *others).ptx != _artifact(name, *_NAMES).ptx


def _stored(ptx: str, name: str, thread: int) -> dict[int, tuple[int, ...]]:
    """Return what a thread has stored at last in each address."""
    extents = (9, 7) if name == "narrow-addresses" else (40,)
    pointers = 0x7F00_0000_0000, 0x7F10_0000_0000
    parameters = list(chain.from_iterable((pointer, *extents) for pointer in pointers))
    special = dict.fromkeys(re.findall(r"%(?:n?tid|n?ctaid)\.\w", ptx), 0)
    special |= {"%ntid.x": 8, "%ntid.y": 4, "%nctaid.x": 1, "%nctaid.y": 1}
    special |= {"%tid.x": thread % 8, "%tid.y": thread // 8}
    trace = run_thread(ptx, parameters, special)
    return {address: values for opcode, address, values in trace if opcode.startswith("st")}


#: The machine of the tests has no memory of a thread's own.
_RUN = [name for name in _NAMES if name != "unroll-array-loops"]


@pytest.mark.parametrize("name", _RUN)
@pytest.mark.parametrize("disabled", [*([each] for each in _RUN), _RUN], ids="+".join)
def test_results_are_the_same_without_a_pass(name: str, disabled: list[str]) -> None:
    for thread in (0, 3, 9):
        expected = _stored(_artifact(name).ptx, name, thread)
        assert _stored(_artifact(name, *disabled).ptx, name, thread) == expected
    assert _stored(_artifact(name).ptx, name, 9)


@pytest.mark.parametrize("name", full_beyond(_NAMES, _NAMES[::4]))
def test_code_without_a_pass_assembles(name: str) -> None:
    newer = newer_words(_ARCH)
    cases = dict.fromkeys(
        (case.kernel, case.kinds, case.mode, case.block_dim)
        for case in QUICK_CASES
        if not intrinsics_of(case.kernel) & newer
    )
    chosen = list(cases)[::6]
    assert len(chosen) >= 12
    artifacts = [_artifact(each, name) for each in _NAMES]
    for kernel, kinds, mode, block in chosen:
        specialization = specialize(kernel, kinds, mode, block=block, disabled_passes=(name,))
        artifacts.append(compile_kernel(specialization, arch=_ARCH, ptx_version=_PTX_VERSION))
    assert assemble_together(artifacts, _ARCH) == len(artifacts)
