"""Every word of the language on every architecture: it is written and assembled, or named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import zip_longest
from typing import Any

import pytest

from kerneldsl.errors import CompileError, ToolMissingError
from targets.cuda.architectures import ARCHITECTURES
from tests.conformance.kernels import CASES
from tests.ptx import test_inline, test_intrinsics
from tests.ptx.helpers import (
    ASSEMBLED_ARCHS,
    QUICK_ARCHS,
    assemble_together,
    lower,
    newer_words,
    write,
)
from tests.sanitizer.selection import WORDS, intrinsics_of
from tests.support.cases import Case
from tests.support.extent import full_beyond, sample

#: A kernel, and what lowers it: its block is not looked up where it is not asked for.
_Lowered = tuple[Any, Callable[[], Any]]


def _written_here() -> Iterator[_Lowered]:
    alone = [(test_inline.hyperbolic, "float32[::1]")]
    for function, signature in (*test_intrinsics.KERNELS, *test_inline.KERNELS, *alone):
        yield function, partial(lower, function, signature)


def _of_cases() -> Iterator[_Lowered]:
    """Yield the first case of each topic, then the second of each, and so on."""
    topics: dict[str, list[Case]] = {}
    for case in CASES:
        topics.setdefault(case.name.partition(".")[0], []).append(case)
    for cases in zip_longest(*topics.values()):
        for case in filter(None, cases):
            yield case.kernel, partial(_lower_case, case)


def _lower_case(case: Case) -> Any:
    return lower(case.kernel, case.kinds, case.mode, block=case.block_dim)


@cache
def _kernels() -> tuple[tuple[frozenset[str], Callable[[], Any]], ...]:
    """Words of kernels that have every word between them, and what lowers each kernel."""
    found: list[tuple[frozenset[str], Callable[[], Any]]] = []
    left = set(WORDS)
    for each in (_written_here(), _of_cases()):
        for kernel, lowered in each:
            words = intrinsics_of(kernel)
            if words & left:
                found.append((words, lowered))
                left -= words
            if not left:
                return tuple(found)
    raise AssertionError(f"in no kernel: {sorted(left)}")


@pytest.mark.parametrize("arch", full_beyond(tuple(ARCHITECTURES), QUICK_ARCHS[1:2]))
def test_every_word_is_assembled_or_named(arch: str) -> None:
    newer = newer_words(arch)
    written = []
    for words, lowered in sample(_kernels(), 4):
        is_newer = words & newer
        if is_newer:
            (name,) = is_newer
            with pytest.raises(CompileError, match=rf"kd\.{name} is compiled for {arch}\b"):
                write(lowered(), arch)
        else:
            written.append(write(lowered(), arch))
    try:
        assert assemble_together(written, arch) == len(written)
    except ToolMissingError:  # this ptxas does not know the architecture
        assert arch not in ASSEMBLED_ARCHS
