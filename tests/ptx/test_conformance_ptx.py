"""Every conformance kernel becomes PTX for every architecture, and ptxas accepts it.

No GPU takes part. ptxas comes from the ``dev`` extra; without it these tests fail.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from targets.cuda.ptxas import assemble
from tests.conformance.kernels import CASES
from tests.support.cases import Case

ARCHITECTURES = ("sm_60", "sm_70", "sm_75", "sm_80", "sm_90", "sm_90a", "sm_100", "sm_120")
#: What ptxas of CUDA 13 still knows.
ASSEMBLED = ARCHITECTURES[2:]


def _distinct() -> list[Case]:
    """One case for each kernel, signature and mode: launches that differ in shape are one."""
    found: dict[object, Case] = {}
    for case in CASES:
        found.setdefault((id(case.kernel), case.signature, case.mode), case)
    return list(found.values())


@pytest.mark.parametrize("case", _distinct(), ids=lambda c: c.name)
def test_case_compiles_and_assembles(case: Case) -> None:
    forall = case.mode.forall_ndim
    texts = {}
    for arch in ARCHITECTURES:
        text = case.kernel.ptx(case.signature, arch=arch, forall=forall)
        assert f".target {arch}" in text
        assert ".visible .entry" in text
        texts[arch] = text
    # ptxas is a process of its own: two at a time.
    with ThreadPoolExecutor(2) as pool:
        jobs = {arch: pool.submit(assemble, texts[arch], arch) for arch in ASSEMBLED}
        for job in jobs.values():
            job.result()
