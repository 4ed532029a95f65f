"""Let products read tiles with exchanged axes from their memory, not from copies of them."""

from __future__ import annotations

from collections import Counter

from kerneldsl.ir.operations import Function, Operation, Region, Value

__all__ = ["read_as_stored"]


def read_as_stored(function: Function) -> None:
    """Give products the tile `t` for ``t.T``, and drop copies that nothing reads."""
    copies = set[Operation]()
    for product in function.body.walk():
        if product.name != "tile.mma":
            continue
        exchanged = list(product.attributes["exchanged"])
        for number in range(2):
            made = product.operands[number].owner
            if isinstance(made, Operation) and _exchanges(made):
                product.operands[number] = made.operands[made.attributes["first"]]
                exchanged[number] = not exchanged[number]
                copies.add(made)
        product.attributes["exchanged"] = tuple(exchanged)
    read: Counter[Value] = Counter()
    for each in function.body.walk():
        read.update(each.operands)
    _drop(function.body, {each for each in copies if not read[each.result]})


def _exchanges(made: Operation) -> bool:
    """Return whether an operation exchanges the axes of a tile, and does nothing else."""
    if made.name != "tile.map" or made.attributes["transposed"] != (True,):
        return False
    (region,) = made.regions
    return len(region.operations) == 1 and region.yielded == region.arguments


def _drop(region: Region, dropped: set[Operation]) -> None:
    region.operations = [each for each in region.operations if each not in dropped]
    for each in region.operations:
        for inner in each.regions:
            _drop(inner, dropped)
