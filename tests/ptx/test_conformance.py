"""Every kernel of the conformance suite becomes PTX for every architecture, and assembles."""

from __future__ import annotations

from collections import defaultdict

import pytest

from tests.conformance.kernels import CASES, QUICK_CASES
from tests.ptx.helpers import (
    ARCHS,
    ASSEMBLED_ARCHS,
    QUICK_ARCHS,
    assemble_together,
    lower,
    newer_words,
    write,
)
from tests.sanitizer.selection import intrinsics_of
from tests.support.cases import Case
from tests.support.extent import IS_QUICK, full_beyond
from tests.support.ptx_registers import unwritten_registers


def _by_topic() -> dict[str, list[Case]]:
    topics: dict[str, list[Case]] = defaultdict(list)
    for case in QUICK_CASES if IS_QUICK else CASES:
        topics[case.name.split(".")[0]].append(case)
    return topics


_TOPICS = _by_topic()


@pytest.mark.parametrize("topic", _TOPICS)
@pytest.mark.parametrize("arch", full_beyond(ARCHS, QUICK_ARCHS[1:2]))
def test_every_case_compiles_and_assembles(topic: str, arch: str) -> None:
    newer = newer_words(arch)  # refused, as test_every_word.py holds
    cases = {
        (case.kernel, case.kinds, case.mode, case.block_dim)
        for case in _TOPICS[topic]
        if not intrinsics_of(case.kernel) & newer
    }
    assert cases
    written = [write(lower(*case, block=block), arch) for *case, block in cases]
    assert all(f".target {arch}\n" in artifact.ptx for artifact in written)
    assert set[str]().union(*(unwritten_registers(artifact.ptx) for artifact in written)) == set()
    if arch in ASSEMBLED_ARCHS:
        assert assemble_together(written, arch) == len(cases)
