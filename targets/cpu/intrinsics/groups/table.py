"""List the operations of warps and blocks in which values are exchanged."""

from __future__ import annotations

from functools import partial

from kerneldsl.language.intrinsics.intrinsic import Scope
from targets.cpu.intrinsics.groups.buffer import (
    exchange,
)
from targets.cpu.intrinsics.groups.combine import reduce_values, scan_before, scan_values
from targets.cpu.intrinsics.groups.sort import SORT_WORDS, post_pairs, sort_pairs, take_pair
from targets.cpu.intrinsics.groups.values import (
    combine_nothing,
    post_predicate,
    post_source,
    post_value,
    take_all,
    take_any,
    take_before,
    take_common,
    take_count,
    take_own,
    take_source,
)
from targets.cpu.intrinsics.warp import Exchange

__all__ = ["GROUPS"]


def _groups() -> dict[str, Exchange]:
    """Return what exchanges values; the votes of a block are barriers (``intrinsics.table``)."""
    exchanges = {
        f"warp.{vote}": exchange(f"warp.{vote}", post_predicate, take)
        for vote, take in (("any", take_any), ("all", take_all), ("count", take_count))
    }
    for scope in (Scope.WARP, Scope.BLOCK):
        group = scope.name.lower()
        for operation in ("sum", "max", "min", "reduce"):
            name = f"{group}.{operation}"
            take = partial(take_common, name, scope)
            exchanges[name] = exchange(name, post_value, take, partial(reduce_values, name, scope))
        name = f"{group}.inclusive_scan"
        combine = partial(scan_values, name, scope)
        exchanges[name] = exchange(name, post_value, partial(take_own, name), combine)
        name = f"{group}.exclusive_scan"
        combine = partial(scan_before, name, scope)
        exchanges[name] = exchange(name, post_value, partial(take_before, name), combine)
        exchanges[f"{group}.broadcast"] = exchange(
            f"{group}.broadcast",
            partial(post_source, scope),
            partial(take_common, f"{group}.broadcast", scope),
            combine_nothing,
        )
        exchanges[f"{group}.exchange"] = exchange(
            f"{group}.exchange", post_value, partial(take_source, scope)
        )
        exchanges[f"{group}.sort"] = exchange(
            f"{group}.sort", post_pairs, take_pair, partial(sort_pairs, scope), words=SORT_WORDS
        )
    return exchanges


GROUPS: dict[str, Exchange] = _groups()
