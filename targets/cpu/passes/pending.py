"""Statements that threads run one after the other, gathered until they have to wait for others."""

from __future__ import annotations

import ast
import copy
from dataclasses import field
from itertools import groupby

from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.codegen.row_loops import guarded
from targets.cpu.passes.exchanges import ExchangeBuffer, exchange_of
from targets.cpu.passes.items import Threads

__all__ = ["Pending", "exchanges_often"]

#: Exchanges from which a kernel's masked ones share loops over threads. Apart, LLVM vectorizes what
#: is between them; a long kernel would compile for tens of seconds, with a loop for each half.
_OFTEN = 12


def exchanges_often(tree: ast.FunctionDef, unit: FunctionUnit) -> bool:
    """Return whether a kernel has so many exchanges that some share their loops over threads."""
    statements = (node for node in walk_here(tree) if isinstance(node, ast.stmt))
    found = (node for node in statements if exchange_of(node, unit) is not None)
    return sum(1 for _ in found) >= _OFTEN


@dataclass
class Pending:
    """The statements that become the next item, each with the guards under which it is."""

    parts: list[tuple[tuple[ast.expr, ...], bool, ast.stmt]] = field(default_factory=list)
    #: The memory from which one of them takes what was posted there.
    taken_from: ExchangeBuffer | None = None

    @property
    def statements(self) -> list[ast.stmt]:
        """All of them, without guards."""
        return [statement for _, _, statement in self.parts]

    def add(
        self, statements: list[ast.stmt], guards: tuple[ast.expr, ...], *, is_masked: bool
    ) -> None:
        """Append statements; masks are guards that threads may fail and yet go on."""
        self.parts += [(guards, is_masked, statement) for statement in statements]

    def flush(self) -> list[Threads]:
        """Return the item that runs them, if there are any, and begin again.

        Under different guards they are one item for all threads, with conditions in it.
        """
        parts, self.parts, self.taken_from = self.parts, [], None
        if not parts:
            return []
        groups = [
            (guards, is_masked, [statement for _, _, statement in group])
            for (guards, is_masked), group in groupby(parts, lambda part: part[:2])
        ]
        if len(groups) == 1:
            guards, is_masked, statements = groups[0]
            return [Threads(statements, guards, is_masked)]
        body: list[ast.stmt] = []
        for guards, _, statements in groups:
            body += guarded(copy.deepcopy([*guards]), statements)
        return [Threads(body)]
