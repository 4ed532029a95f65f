"""The items as one thread runs them, from which Numba infers the types of private variables."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import NamedTuple

from kerneldsl.analysis.expressions import loaded_names
from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.syntax import assign, call, load
from targets.cpu.interchange import peel
from targets.cpu.items import Branch, ForLoop, Item, Leave, Once, Threads, Vote, WhileLoop
from targets.cpu.liveness import Liveness
from targets.cpu.purity import PureValues

__all__ = ["Probe", "render_for_typing"]


class Probe(NamedTuple):
    """Point at which Numba is asked for the types of variables: the beginning of an item."""

    #: A variable of the generated code that is assigned a tuple of them.
    variable: str
    #: The variables, in order.
    names: list[str]


def render_for_typing(
    items: Sequence[Item],
    pure: PureValues,
    liveness: Liveness,
    names: FreshNames,
    probes: dict[Item, Probe],
) -> list[ast.stmt]:
    """Return the items as one thread runs them, with probes for the types of what is fetched.

    Each probe is ``types = (x, y, …)`` at the place where an item begins; Numba's type of that
    variable tells the types at that place. `probes` is filled.
    """
    out: list[ast.stmt] = []

    def render(inner: Sequence[Item]) -> list[ast.stmt]:
        return render_for_typing(inner, pure, liveness, names, probes)

    def ask(item: Threads | Vote) -> None:
        fetched = sorted(liveness.loads(item))
        if fetched:
            probe = probes[item] = Probe(names.make("types"), fetched)
            values = ast.Tuple([load(n) for n in fetched], ast.Load())
            out.append(assign(probe.variable, values))

    for item in items:
        if isinstance(item, Threads | Vote):
            ask(item)
        match item:
            case Threads(rows=list() as rows):
                conditions, _ = peel(item, pure)
                needed = pure.needed(set().union(*map(loaded_names, conditions), set()))
                inner = render(rows)
                for condition in reversed(conditions):
                    inner = [ast.If(condition, inner, [])]
                out += [*(pure.definition(n) for n in needed), *inner]
            case Threads() | Vote():
                body: list[ast.stmt] = (
                    item.body if isinstance(item, Threads) else [ast.Expr(item.predicate)]
                )
                out += [
                    pure.definition(n)
                    for n in pure.needed(loaded_names(body) | loaded_names(item.guards))
                ]
                for guard in reversed(item.guards):
                    body = [ast.If(guard, body, [])]
                out += body
                if isinstance(item, Vote):
                    out.append(assign(item.target, call("kd_int32", ast.Constant(1))))
            case Once():
                needed = pure.needed(loaded_names(item.statement))
                out += [*(pure.definition(n) for n in needed), item.statement]
            case Branch():
                body = render(item.body)
                orelse = render(item.orelse)
                test = pure.expanded(item.test)
                out.append(ast.If(test, body or [ast.Pass()], orelse))
            case ForLoop():
                body = render(item.body)
                iterable = pure.expanded(item.iterable)
                out.append(ast.For(item.target, iterable, body or [ast.Pass()], []))
            case WhileLoop():
                body = render(item.body)
                test = pure.expanded(item.test)
                out.append(ast.While(test, body or [ast.Pass()], []))
            case Leave():
                out.append(item.statement)
    return out
