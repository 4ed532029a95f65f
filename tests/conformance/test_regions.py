"""Every case in the region IR, interpreted: the arrays that a GPU must leave."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance.kernels import CASES, QUICK_CASES
from tests.support.cases import Case, copy_arguments
from tests.support.conversions import UndefinedConversionError
from tests.support.extent import full_beyond
from tests.support.regions.reading import after_passes, as_written, specialized
from tests.support.regions.running import run
from tests.support.regions.watching import watch_of
from tests.support.simt import Launch
from tests.support.verifier import verify

#: Code of other compilers has no meaning here.
_CASES = [case for case in CASES if case.name.partition(".")[0] != "linked"]


@pytest.mark.parametrize("case", full_beyond(_CASES, QUICK_CASES[::6]), ids=lambda c: c.name)
def test_interpreted_case(case: Case, rng: np.random.Generator) -> None:
    """The kernel as it is read, and after the passes with what analyses say of it."""
    args = case.arguments(rng)
    expected = case.expect(args)
    forall = None if case.extent is None else len(case.extent)
    spec = specialized(case.kernel, args, forall=forall, block=case.block_dim)
    written = as_written(spec)
    after, intervals = after_passes(spec)
    for function, watch in ((written, None), (after, watch_of(after, intervals))):
        verify(function)
        found = copy_arguments(args)
        launch = (
            Launch(case.grid, case.block, case.shared_bytes)
            if case.extent is None
            else Launch(case.extent)
        )
        try:
            run(function, launch, found, watch)
        except UndefinedConversionError as conversion:
            pytest.skip(f"a machine's own conversion: {conversion}")
        case.compare("cuda", found, expected)
