"""Kernels without one of the optimizing passes: other code, and the same results."""

from __future__ import annotations

import re
from itertools import chain

import pytest

from kerneldsl.contract import Promises
from targets.cuda.compile.compiler import compile_kernel
from targets.cuda.compile.pipeline import PASSES
from targets.cuda.compile.ptxas import assemble
from tests.conformance.kernels import QUICK_CASES
from tests.ptx.helpers import assemble_together, newer_words, specialize
from tests.ptx.pass_kernels import ARCH, OVER_EXTENTS, PASS_KERNELS, PTX_VERSION, artifact_for_pass
from tests.sanitizer.selection import intrinsics_of
from tests.support.extent import full_beyond
from tests.support.ptx_machine import run_thread

_NAMES = [each.name for each in PASSES]
#: A pass that changes what another one has planned.
_AFTER = {
    "load-factors-early": "multiply-by-warps",
    "pack-halves": "multiply-by-warps",
    "overlap-products": "multiply-by-warpgroups",
}


def test_each_pass_has_a_kernel() -> None:
    assert list(PASS_KERNELS) == _NAMES


@pytest.mark.parametrize("name", _NAMES)
def test_a_kernel_has_other_code_without_its_pass(name: str) -> None:
    assert artifact_for_pass(name, name).ptx != artifact_for_pass(name).ptx
    others = [each for each in _NAMES if each not in (name, _AFTER.get(name))]
    assert artifact_for_pass(name, *others).ptx != artifact_for_pass(name, name, *others).ptx


def _stored(ptx: str, name: str, thread: int) -> dict[int, tuple[int, ...]]:
    """Return what a thread has stored at last in each address."""
    extents = (9, 7) if name in ("narrow-addresses", "step-pointers") else (40,)
    pointers = 0x7F00_0000_0000, 0x7F10_0000_0000
    parameters = list(chain.from_iterable((pointer, *extents) for pointer in pointers))
    if name in OVER_EXTENTS:
        parameters += extents
    special = dict.fromkeys(re.findall(r"%(?:n?tid|n?ctaid)\.\w", ptx), 0)
    special |= {"%ntid.x": 8, "%ntid.y": 4, "%nctaid.x": 1, "%nctaid.y": 1}
    special |= {"%tid.x": thread % 8, "%tid.y": thread // 8}
    trace = run_thread(ptx, parameters, special)
    return {
        address: tuple(each % 2 ** int(re.findall(r"\d+", opcode)[-1]) for each in values)
        for opcode, address, values in trace
        if opcode.startswith("st")
    }


#: The machine of the tests has no memory of a thread's own, and calls no functions; those that are
#: inlined run in ``test_inline_linked.py``, products in ``mma/test_products.py`` and
#: ``mma/test_warpgroup_threads.py``.
_OF_PRODUCTS = (
    "multiply-by-warpgroups",
    "overlap-products",
    "multiply-by-warps",
    "load-factors-early",
    "pack-halves",
)
_NOT_RUN = ("unroll-array-loops", "inline-linked", *_OF_PRODUCTS)
_RUN = [name for name in _NAMES if name not in _NOT_RUN]


_PAIRS = [(name, each) for name in _RUN for each in (*_RUN, "all")]


@pytest.mark.parametrize(
    "pair", full_beyond(_PAIRS, [pair for pair in _PAIRS if pair[1] in (pair[0], "all")]), ids=str
)
def test_results_are_the_same_without_a_pass(pair: tuple[str, str]) -> None:
    name, without = pair
    disabled = _RUN if without == "all" else [without]
    for thread in (0, 3, 9):
        expected = _stored(artifact_for_pass(name).ptx, name, thread)
        assert _stored(artifact_for_pass(name, *disabled).ptx, name, thread) == expected
    assert _stored(artifact_for_pass(name).ptx, name, 9)


#: With which more passes change code.
_NARROW = Promises(is_narrow=True)


@pytest.mark.parametrize("name", full_beyond(_NAMES, _NAMES[::16]))
def test_code_without_a_pass_assembles(name: str) -> None:
    newer = newer_words(ARCH)
    cases = dict.fromkeys(
        (case.kernel, case.kinds, case.mode, case.block_dim)
        for case in QUICK_CASES
        if not intrinsics_of(case.kernel) & newer
    )
    chosen = list(cases)[::6]
    assert len(chosen) >= 12
    artifacts = [artifact_for_pass(each, name) for each in _NAMES]
    for kernel, kinds, mode, block in chosen:
        specialization = specialize(
            kernel, kinds, mode, block=block, promises=_NARROW, disabled_passes=(name,)
        )
        artifacts.append(compile_kernel(specialization, arch=ARCH, ptx_version=PTX_VERSION))
    # They are for an architecture with instructions that no other one has.
    special = [each for each in artifacts if each.arch != ARCH]
    others = [each for each in artifacts if each.arch == ARCH]
    assert len(special) == 2
    assert assemble_together(others, ARCH) == len(others)
    for each in special:
        assemble(each.ptx, each.arch)
