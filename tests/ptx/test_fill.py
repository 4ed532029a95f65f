"""The kernel that fills memory, written by hand: assembled for each architecture."""

from __future__ import annotations

import pytest

from kerneldsl.errors import ToolMissingError
from targets.cuda.architectures import ARCHITECTURES
from targets.cuda.compile import ptxas
from targets.cuda.device.memory import fill_ptx


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_it_assembles(arch: str) -> None:
    text = fill_ptx(arch)
    assert f".target {arch}\n" in text
    try:
        found = ptxas.assemble(text, arch).resources["kerneldsl_fill"]
    except ToolMissingError as error:
        pytest.skip(str(error))
    assert (found.spill_bytes, found.local_bytes, found.static_shared_bytes) == (0, 0, 0)
    assert found.registers is not None
    assert found.registers <= 32  # so that every thread of a multiprocessor can work
