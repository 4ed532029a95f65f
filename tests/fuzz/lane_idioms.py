"""What the lanes of a warp do: shuffles, votes, matches, reductions, loops of a warp."""

from __future__ import annotations

from tests.fuzz.body import Body
from tests.fuzz.expressions import Expression
from tests.fuzz.shared_idioms import exchange
from tests.fuzz.typing import INTEGERS, NARROW_INTEGERS
from tests.support.warps import WARP_SIZE

__all__ = ["in_warp", "replaced_exchange", "unused_exchange", "warp_loop"]


def in_warp(body: Body, depth: int) -> None:
    """A value of another lane, or a vote of the warp's lanes."""
    body.features |= {"lanes", "warp exchange"}
    is_first_alone = body.threads > WARP_SIZE and body.expressions.chance(4)
    if is_first_alone:  # a branch that is uniform in each warp, and not in the block
        with body.block(f"if {body.thread} < {WARP_SIZE}:"):
            _exchange_lanes(body, is_whole=not body.may_return)
    elif not body.may_return and body.expressions.chance(2):
        _combine_lanes(body, _live_lanes(body))
    else:
        _exchange_lanes(body, is_whole=body.threads % WARP_SIZE == 0 and not body.may_return)


def _live_lanes(body: Body) -> str:
    """The mask of this thread's warp, whose last one may have fewer lanes."""
    whole, rest = divmod(body.threads, WARP_SIZE)
    if rest == 0:
        return body.expressions.choose(("0xFFFFFFFF", "-1"))
    last = (1 << rest) - 1
    return (
        f"(0xFFFFFFFF if {body.thread} < {whole * WARP_SIZE} else {last:#x})"
        if whole
        else str(last)
    )


def _exchange_lanes(body: Body, *, is_whole: bool) -> None:
    """Exchange among lanes; of a warp that is not whole only what CUDA defines."""
    choose, mask = body.expressions.choose, body.expressions.choose(("0xFFFFFFFF", "4294967295"))
    delta = choose(("1", "2", "16", "31", "m", "n"))
    if is_whole and body.expressions.chance(3):
        return _combine_lanes(body, mask)
    shuffles = [("shfl_up_sync", delta)] if not body.may_return else []
    if is_whole:
        lanes = ("0", "5", "31", "m", f"{body.thread} * 7 + 3")
        shuffles += [("shfl_sync", choose(lanes)), ("shfl_sync", choose(lanes))]
        shuffles += [("shfl_down_sync", delta), ("shfl_xor_sync", delta)]
    if shuffles and body.rng.randrange(3):
        name, lane = choose(shuffles)
        dtype = choose((*body.variables, *body.shared)).dtype
        value = body.expressions.of_type(dtype, 1)
        widened = "int32" if dtype in NARROW_INTEGERS else dtype
        body.take(Expression(f"kd.{name}({mask}, {value}, {lane})", widened))
        return None
    test = body.expressions.condition(1)
    found = choose(
        (
            Expression(f"kd.ballot_sync({mask}, {test})", "int32"),
            Expression(f"kd.popc(kd.ballot_sync({mask}, {test}))", "int32"),
            Expression(f"(1 if kd.all_sync({mask}, {test}) else 2)", "int64"),
            Expression(f"(5 if kd.any_sync({mask}, {test}) else 3)", "int64"),
            Expression(f"(4 if kd.eq_sync({mask}, {test}) else 6)", "int64"),
            Expression("kd.lanemask_lt()", "uint32"),
        )
    )
    body.take(found)
    if body.expressions.chance(4):
        body.emit("kd.syncwarp()")
    return None


def _combine_lanes(body: Body, mask: str) -> None:
    """A match or a reduction of the values of a whole warp, or of lanes that have the same key."""
    body.features.add("warp reduction")
    choose, found = body.expressions.choose, body.fresh("e")
    if body.expressions.chance(3):
        body.emit(f"{found} = kd.match_any_sync({mask}, {body.expressions.integer(1).text} % 3)")
        mask = found
    names = ["add", "min", "max"]
    dtype = choose((*body.variables, *body.shared)).dtype
    if dtype in INTEGERS:
        names += ["and", "or", "xor"]
    value = body.expressions.of_type(dtype, 1)
    widened = "int32" if dtype in NARROW_INTEGERS else dtype
    if mask != found and dtype in INTEGERS and body.expressions.chance(4):
        lanes, is_one = body.fresh("e"), body.fresh("e")
        body.emit(f"{lanes}, {is_one} = kd.match_all_sync({mask}, {value})")
        body.take(Expression(f"({lanes} if {is_one} else np.int32(9))", "int32"))
        return
    body.take(Expression(f"kd.reduce_{choose(names)}_sync({mask}, {value})", widened))


def warp_loop(body: Body, depth: int) -> None:
    """A loop that each warp runs as often as its own values say."""
    if body.may_return:
        return exchange(body, depth)
    body.features |= {"lanes", "warp loop"}
    mask, name, counter = _live_lanes(body), body.fresh("w"), body.fresh("w")
    body.emit(f"{name} = {body.expressions.integer(1).text} % 5")
    if body.expressions.chance(2):
        header = f"while kd.any_sync({mask}, {name} > 0):"
    else:
        body.emit(f"{counter} = kd.reduce_max_sync({mask}, {name})")
        header = f"for {body.fresh('k')} in range({counter}):"
    with body.block(header):
        body.emit(f"{name} -= 1")
        if body.expressions.chance(2):
            left = body.expressions.choose(("continue", "break"))
            body.emit(f"if kd.all_sync({mask}, {name} < {body.rng.randrange(3)}):")
            body.emit(f"    {left}")
        _combine_lanes(body, mask)
    return None


def replaced_exchange(body: Body, depth: int = 0) -> None:
    """An exchange of some lanes, whose result another branch on the same condition replaces."""
    if body.may_return:
        return in_warp(body, depth)
    body.features |= {"lanes", "replaced exchange"}
    choose, test, mask, found = body.expressions.choose, *map(body.fresh, "eee")
    dtype = choose(body.variables).dtype
    widened = "int32" if dtype in NARROW_INTEGERS else dtype
    body.emit(f"{test} = {body.expressions.condition(1)}")
    body.emit(f"{mask} = kd.ballot_sync({_live_lanes(body)}, {test})")
    body.emit(f"{found} = np.{widened}({body.rng.randrange(9)})")
    value = body.expressions.of_type(dtype, 1)
    names = ("reduce_add_sync", "reduce_max_sync", "shfl_sync")
    if dtype in INTEGERS:
        names += ("reduce_xor_sync", "match_any_sync")
    name = choose(names)
    source = ", kd.laneid" if name == "shfl_sync" else ""
    result = f"kd.{name}({mask}, {value}{source})"
    if name == "match_any_sync":
        result = f"np.{widened}({result})"
    with body.block(f"if {test}:"):
        body.emit(f"{found} = {result}")
    if body.expressions.chance(3):
        in_warp(body, depth)
    with body.block(f"if {choose((test, test, f'not {test}'))}:"):
        body.emit(f"{found} = {body.expressions.of_type(widened, 1)}")
    if body.expressions.chance(2):
        in_warp(body, depth)
    body.take(Expression(found, widened))
    return None


def unused_exchange(body: Body, depth: int = 0) -> None:
    """An exchange whose result nothing reads, before one that is read."""
    if body.may_return:
        return in_warp(body, depth)
    body.features |= {"lanes", "unused exchange"}
    choose, mask = body.expressions.choose, _live_lanes(body)
    dtype = choose(body.variables).dtype
    value = body.expressions.of_type(dtype, 1)
    name = choose(("reduce_add_sync", "reduce_min_sync", "match_any_sync", "shfl_xor_sync"))
    call = f"kd.{name}({mask}, {value}{', 1' if name == 'shfl_xor_sync' else ''})"
    if name == "match_any_sync" and dtype not in INTEGERS:
        call = f"kd.ballot_sync({mask}, {body.expressions.condition(1)})"
    body.emit(choose((call, f"{body.fresh('e')} = {call}")))
    in_warp(body, depth)
    return None
