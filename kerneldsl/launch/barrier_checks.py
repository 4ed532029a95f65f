"""Check of a launch what the barriers of its kernel need.

Arguments that overlap in memory may make a barrier unsafe. The states of chains must be large
enough for the blocks.
"""

from __future__ import annotations

import math

from kerneldsl.contract import LaunchConfig
from kerneldsl.contract.findings import BarrierFacts
from kerneldsl.errors import ArgumentValueError
from kerneldsl.language.intrinsics.chains import CHAIN_WORDS
from kerneldsl.launch.request import Request, arrays_overlap
from kerneldsl.utilities.formatting import format_count

__all__ = ["chain_state_size", "check_launch"]


def chain_state_size(config: LaunchConfig) -> int:
    """Return how many elements the state of a chain must have for a launch."""
    return CHAIN_WORDS * math.prod(config.grid_dim)


def check_launch(request: Request, facts: BarrierFacts, config: LaunchConfig) -> None:
    """Check a launch of a kernel by what is known of its barriers.

    - raises `BarrierDivergenceError` if the target refuses a barrier because arguments overlap.
    - raises `ArgumentValueError` if the state of a chain is too small.
    """
    if facts.overlap_matters and arrays_overlap(request.state, request.binding):
        request.device.compiler.check_barriers(facts.problems_if_overlapping)
    if facts.chain_states:
        _check_chain_states(request, facts.chain_states, config)


def _check_chain_states(request: Request, states: frozenset[int], config: LaunchConfig) -> None:
    """Raise `ArgumentValueError` for a state that has not enough elements.

    A block would write beyond its end, and later blocks wait for what is there.
    """
    state, binding = request.state, request.binding
    needed = chain_state_size(config)
    for array in binding.passed_arrays():
        count = math.prod(array.shape)
        if array.position in states and count < needed:
            name = state.unit.parameters[array.position]
            blocks = needed // CHAIN_WORDS
            raise ArgumentValueError(
                f"{name} has {format_count(count, 'element')}, and is the state of a chain of "
                f"{format_count(blocks, 'block')} in {state.unit.qualname}",
                value=count,
                limit=f"kd.chain needs {CHAIN_WORDS} elements for each block, {needed} here",
                remedy=f"Make it once, {name} = kd.zeros({needed}, np.uint64), or launch fewer "
                "blocks",
            )
