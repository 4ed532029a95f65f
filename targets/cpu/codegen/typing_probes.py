"""The items as one thread runs them, from which Numba infers the types of private variables."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kerneldsl.analysis.expressions import loaded_names
from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.syntax import assign, call, load
from targets.cpu.codegen.emit import ItemWriter
from targets.cpu.passes.interchange import peel
from targets.cpu.passes.items import Item, Threads, Vote

__all__ = ["Probe", "ProbeWriter"]


class Probe(NamedTuple):
    """Point at which Numba is asked for the types of variables: the beginning of an item."""

    #: A variable of the generated code that is assigned a tuple of them.
    variable: str
    #: The variables, in order.
    names: list[str]


@dataclass(frozen=True)
class ProbeWriter(ItemWriter):
    """Writes the items as one thread runs them, with probes for the types of what is fetched.

    Each probe is ``types = (x, y, …)`` at the place where an item begins; Numba's type of that
    variable gives the types at that place.
    """

    names: FreshNames
    #: The probe of each item that fetches anything; filled by writing.
    probes: dict[Item, Probe] = field(default_factory=dict)

    def threads(self, item: Threads) -> list[ast.stmt]:
        if item.rows is None:
            return [*self._probe(item), *self._guarded(item.body, item.guards)]
        conditions, _ = peel(item, self.variables.pure)
        return [*self._probe(item), *self._guarded(self.items(item.rows), conditions, ())]

    def vote(self, item: Vote) -> list[ast.stmt]:
        is_truth = item.form in ("all", "any")
        value = ast.Constant(True) if is_truth else call("kd_int32", ast.Constant(1))
        result = assign(item.target, value)
        body: list[ast.stmt] = [ast.Expr(item.predicate)]
        return [*self._probe(item), *self._guarded(body, item.guards), result]

    def _probe(self, item: Threads | Vote) -> list[ast.stmt]:
        fetched = sorted(self.variables.liveness.loads(item))
        if not fetched:
            return []
        probe = self.probes[item] = Probe(self.names.make("types"), fetched)
        return [assign(probe.variable, ast.Tuple([load(n) for n in fetched], ast.Load()))]

    def _guarded(
        self,
        body: list[ast.stmt],
        guards: Sequence[ast.expr],
        reading: Sequence[ast.stmt] | None = None,
    ) -> list[ast.stmt]:
        """Put guards around statements, after the pure variables that both read."""
        names = loaded_names(body if reading is None else reading) | loaded_names(guards)
        for guard in reversed(guards):
            body = [ast.If(guard, body, [])]
        return [*self.definitions(self.variables.pure.needed(names)), *body]
