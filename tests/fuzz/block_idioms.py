"""What the threads of a block do together, and branches and loops of the whole block around it."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.body import Body
from tests.fuzz.call_idioms import call_anywhere
from tests.fuzz.expressions import Expression
from tests.fuzz.group_idioms import group
from tests.fuzz.lane_idioms import in_warp, warp_loop
from tests.fuzz.shared_idioms import (
    exchange,
    halo,
    histogram,
    plane,
    retyped,
    scan,
    view_near_barrier,
    vote,
)
from tests.fuzz.thread_idioms import statements
from tests.fuzz.tile_idioms import call_tile_functions, tile
from tests.fuzz.view_idioms import exchange_vectors

__all__ = ["together", "use_levels"]


def together(body: Body, count: int, depth: int) -> None:
    """Write so many idioms; `depth` bounds how deeply blocks stand in each other."""
    for _ in range(count):
        level = body.expressions.choose((None, None, *sorted(body.levels)))
        if depth > 0 and body.expressions.chance(2):
            found = _NESTED + ([warp_loop] * 5 if "lanes" in body.levels else [])
        else:
            found = _FLAT if level is None else _LEVELS[level]
        body.expressions.choose(found)(body, depth)


def use_levels(body: Body) -> None:
    """Write an idiom of each level that the kernel uses and has not used yet; more of tiles."""
    for level in sorted(body.levels - body.features):
        body.expressions.choose(_LEVELS[level])(body, 0)
    if "tiles" in body.levels:
        if body.expressions.chance(2):
            tile(body, 0)
        call_tile_functions(body)


def _alone(body: Body, depth: int) -> None:
    statements(body, 1, depth - 1)


def _uniform_test(body: Body) -> str:
    uniform = body.expressions.choose(["n", "m", "kd.blockIdx.x", *body.uniform])
    return body.expressions.choose(
        (f"{uniform} > 1", f"{uniform} % 2 == 0", f"{uniform} == m", f"n + {uniform} < 4")
    )


def _uniform_if(body: Body, depth: int) -> None:
    body.features.add("barrier in a branch")
    flag = bool(body.flags) and not body.expressions.chance(8)
    if flag:
        body.features.add("captured flag around a barrier")
    test = body.expressions.choose(body.flags) if flag else _uniform_test(body)
    with body.block(f"if {test}:"):
        together(body, body.rng.choice((1, 1, 2)), depth - 1)
    if body.expressions.chance(3):
        with body.block("else:"):
            together(body, 1, 0)


def _uniform_for(body: Body, depth: int) -> None:
    body.features.add("barrier in a loop")
    name = body.counter()
    count = body.expressions.choose(("2", "3", "n", "m"))
    kind = body.rng.randrange(3)
    new: tuple[str, ...] = (name,)
    if kind == 0:
        second = body.fresh("k")
        used = {v.text for v in body.expressions.values}
        if "c" not in used and "d" not in used and body.expressions.chance(2):
            name, second = "c", "d"
        new = (name, second)
        header = f"for {name}, {second} in ((1, 2), (3, 1)):"
        body.features.add("tuple target around a barrier")
    elif kind == 1:
        header = f"for {name} in (1, 2, 4):"
    else:
        header = f"for {name} in range({count}):"
    values = [Expression(k, "int64") for k in new]
    for _ in range(body.rng.choice((1, 1, 2)) if kind == 0 else 1):  # the targets are used again
        with body.block(header, *values, uniform=new):
            if body.expressions.chance(4):
                body.emit(f"if {name} == m:")
                body.emit(f"    {body.expressions.choose(('break', 'continue'))}")
            together(body, body.rng.choice((1, 1, 2)), depth - 1)


def _uniform_while(body: Body, depth: int) -> None:
    body.features.add("barrier in a loop")
    name = body.fresh("w")
    body.emit(f"{name} = {body.expressions.choose(('0', 'm', 'kd.blockIdx.x'))}")
    with body.block(f"while {name} < 3:", Expression(name, "int64"), uniform=(name,)):
        together(body, 1, depth - 1)
        body.emit(f"{name} += 1")


_Idiom = Callable[[Body, int], None]
_FLAT: list[_Idiom] = [
    *(
        exchange,
        exchange,
        exchange,
        view_near_barrier,
        view_near_barrier,
        halo,
        halo,
        plane,
        scan,
        histogram,
        retyped,
        retyped,
        histogram,
    ),
    *(exchange_vectors,) * 10,
    *(vote, vote),
    *(call_anywhere,) * 10,
    *(_alone, _alone),
]
#: What is done with lanes, groups and tiles.
_LEVELS: dict[str, list[_Idiom]] = {"lanes": [in_warp], "groups": [group], "tiles": [tile]}
_NESTED: list[_Idiom] = [
    *(_uniform_if,) * 5,
    *(_uniform_for,) * 6,
    _uniform_while,
]
