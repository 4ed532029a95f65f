"""Check that the states of chains are large enough for the blocks of a launch."""

from __future__ import annotations

import math

from kerneldsl.contract import LaunchConfig
from kerneldsl.errors import ArgumentValueError
from kerneldsl.language.intrinsics.chains import CHAIN_WORDS
from kerneldsl.launch.request import Request
from kerneldsl.utilities.formatting import format_count

__all__ = ["chain_state_size", "check_chain_states"]


def chain_state_size(config: LaunchConfig) -> int:
    """Return how many elements the state of a chain must have for a launch."""
    return CHAIN_WORDS * math.prod(config.grid_dim)


def check_chain_states(request: Request, config: LaunchConfig) -> None:
    """Raise `ArgumentValueError` for a state that has not enough elements.

    A block would write beyond its end, and later blocks wait for what is there.
    """
    state, binding = request.state, request.binding
    needed = chain_state_size(config)
    for array in binding.passed_arrays():
        count = math.prod(array.shape)
        if array.position in state.traits.chain_states and count < needed:
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
