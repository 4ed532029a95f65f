"""Let threads compute while products run that they do not need yet.

A warpgroup begins a product and waits for it at once. If a region has several products, it waits
where the result is read::

    begin s = a @ b; begin t = c @ d     # both run
    wait for s; compute p from it        # t still runs
    begin u += p @ e                     # from registers
    wait for t; compute r from p and t   # u still runs
    wait for u; begin w += r @ f         # registers of p are free
    wait for w

So a product with a factor in registers ends before the next one begins, unless that adds to its
result. A slot of a ring is free when the products that read it have ended.
"""

from __future__ import annotations

from collections.abc import Sequence

from kerneldsl.ir.operations import Effect, Operation, Region
from targets.cuda.compile.mma.warpgroup_plan import Part

__all__ = ["await_late"]


def await_late(region: Region) -> int:
    """Rewrite a region, and those inside; return how many products others run beside."""
    count = 0
    for operation in region.operations:
        count += sum(map(await_late, operation.regions))
    products = [each for each in region.operations if _is_begun(each)]
    if len(products) < 2:
        return count
    return count + _rewrite(region)


def _is_begun(operation: Operation) -> bool:
    """Return whether an operation is a product for which threads wait at once."""
    if operation.name != "tile.mma" or "form" not in operation.attributes:
        return False
    attributes = operation.attributes
    is_in_parts = attributes["form"].is_promoted and attributes["promote"] is not None
    return not (is_in_parts or attributes.get("is_pending")) and attributes.get("is_awaited", True)


def _rewrite(region: Region) -> int:
    out: list[Operation] = []
    running: list[Operation] = []  # the last one began last
    releases: list[Operation] = []
    count = 0

    def wait_for(product: Operation) -> None:
        nonlocal count
        place = running.index(product)
        pending = len(running) - 1 - place
        count += pending > 0
        attributes = {"product": product, "pending": pending}
        out.append(Operation("ring.await", [], (), attributes, effect=Effect.WAIT))
        # Earlier products have ended, too, but their results pass through their own waits.
        del running[place]

    def release() -> None:
        rings = {ring for each in running for ring in _rings_of(each)}
        for each in list(releases):
            if each.attributes["ring"] not in rings:
                releases.remove(each)
                out.append(each)

    readers = list(region.operations)
    for operation in readers:
        for product in list(running):
            if _continues(operation, product, readers) and out[-1].name != "ring.rows":
                product.attributes["is_continued"] = True
                operation.attributes["continued"] = product
                running.remove(product)
            elif _needs(operation, product):
                wait_for(product)
        if operation.name == "yield":
            for product in list(running):
                wait_for(product)
        release()
        if operation.name == "ring.release":
            releases.append(operation)
            release()
            continue
        if _is_begun(operation):
            operation.attributes["is_awaited"] = False
            running.append(operation)
        out.append(operation)
    region.operations = out
    return count


def _continues(operation: Operation, product: Operation, others: Sequence[Operation]) -> bool:
    """Return whether an operation is a product, and alone adds to the result of another one."""
    return (
        operation.name == "tile.mma"
        and _is_begun(operation)
        and operation.operands[2:] == [product.result]
        and _rings_of(product) == _rings_of(operation)
        and sum(product.result in each.used() for each in others) == 1
    )


def _needs(operation: Operation, product: Operation) -> bool:
    """Return whether an operation begins after the end of a product."""
    if product.result in operation.used():
        return True
    if any(each.name == "tile.mma" for region in operation.regions for each in region.walk()):
        return True
    is_of_rings = operation.name in ("ring.await", "ring.drain")
    has_words = len(_parts_of(product)) < 2
    return is_of_rings or (has_words and operation.name == "tile.mma")


def _parts_of(product: Operation) -> list[Part]:
    """Return the factors that are in rings, and not computed in registers."""
    owners = [value.owner for value in product.operands[:2]]
    found = [each.attributes.get("part") for each in owners if isinstance(each, Operation)]
    return [part for part in found if part is not None]


def _rings_of(product: Operation) -> set[int]:
    return {part.ring for part in _parts_of(product)}
