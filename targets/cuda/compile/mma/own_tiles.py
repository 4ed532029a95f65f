"""Let two warpgroups take tiles in turn, so that one stores results while one multiplies.

The producer copies the factors of all tiles of the block one after the other. The warpgroups take
the tiles in turn. One multiplies at a time: it waits until the other one has received the factors
of the tile before. Then the slots that it waits for are in the phase that it expects. So the tensor
cores multiply while the other warpgroup computes and stores its results.

A warpgroup passes over the slots of the other one's tile. All tiles have as many iterations.
"""

from __future__ import annotations

from collections.abc import Mapping

from kerneldsl.ir.operations import Effect, Function, Operation, Region, Value
from kerneldsl.ir.ranges import Interval
from kerneldsl.ir.recognize import constant_number
from targets.cuda.compile.mma.mapped_loads import NotPlanned
from targets.cuda.compile.mma.mapped_stores import has_few_tiles

__all__ = ["check_own_tiles", "take_own_tiles"]

_FEW_ROWS = "two warpgroups do not take turns at tiles of 64 rows"


def check_own_tiles(
    function: Function, factors: set[Operation], loops: Mapping[Region, int]
) -> None:
    """Refuse kernels with tiles that one warpgroup cannot compute alone.

    Raises
    ------
    NotPlanned
        With the reason.
    """
    body = function.body.operations
    outer = [each for each in body if "tiles" in each.attributes]
    inner = [each for loop in outer for each in loop.regions[0].operations if each.regions]
    (pipelined, *others) = loops
    places = [each for each in inner if pipelined in each.regions]
    if others or not places or not factors.issubset(pipelined.operations):
        raise NotPlanned(f"{_FEW_ROWS} outside of one loop over kd.pipelined in one over kd.tiles")
    for each in function.body.walk():
        is_of_tile = each.name.startswith("tile.")
        if each.name.startswith("threadIdx") or (each.effect & ~Effect.READ and not is_of_tile):
            raise NotPlanned(f"{_FEW_ROWS} beside {each.name}")
    if not has_few_tiles(function, factors):
        raise NotPlanned(f"{_FEW_ROWS} beside tiles in shared memory")
    if any(each.effects() for each in body if each is not outer[0]):
        raise NotPlanned(f"{_FEW_ROWS} beside tiles outside of the loop over kd.tiles")
    bounds = places[0].operands[:3]
    has_step = (constant_number(bounds[2]) or 0) > 0
    if not has_step or any(_depends(each, outer[0].regions[0]) for each in bounds):
        raise NotPlanned(f"{_FEW_ROWS} in loops that are not all as long")


def _depends(value: Value, region: Region) -> bool:
    """Return whether a value may differ between iterations of a loop."""
    owner = value.owner
    if not isinstance(owner, Operation):
        return owner is region
    return bool(owner.effects()) or any(_depends(each, region) for each in owner.operands)


def take_own_tiles(others: Region, pipelined: Region, known: dict[Value, Interval]) -> None:
    """Let the threads that multiply take tiles by warpgroups.

    - `others`: operations of these threads.
    - `pipelined`: the region of the loop with the products.
    - `known`: intervals of integers.
    """
    (loop,) = (each for each in others.operations if "tiles" in each.attributes)
    start, stop, step = loop.operands[:3]
    taken = Operation("ring.taken", [start, step], (start.type, step.type))
    first, distance = taken.results
    loop.operands = [first, stop, distance, *loop.operands[3:]]
    known |= {first: (0, 2**62), distance: (1, 2**62)}
    others.operations.insert(others.operations.index(loop), taken)
    others.operations.insert(1, _turn("first"))
    inner = loop.regions[0].operations
    (place,) = (n for n, each in enumerate(inner) if pipelined in each.regions)
    passed = Operation("ring.pass", inner[place].operands[:3], (), {"ring": 0}, effect=Effect.WAIT)
    inner[place : place + 1] = [passed, _turn("begin"), inner[place], _turn("end")]


def _turn(word: str) -> Operation:
    return Operation("ring.turn", [], (), {"word": word}, effect=Effect.WAIT)
