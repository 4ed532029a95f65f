"""Find modules that import each other in a circle, wherever in a file the imports stand.

``python -m tests.support.import_cycles`` lists every cycle of the product, and fails if there is
one. An import in a function counts like any other: it puts off what a cycle breaks until the
function is called. Imports under ``if TYPE_CHECKING:`` are never run and serve annotations alone,
so they do not count; ``lint-imports`` counts them for the layers.

A package that a module stands in does not count as imported by it, although Python runs it first.
What is imported by a name computed at run time, as targets are, is not seen.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import grimp

__all__ = ["Import", "find_cycles", "main"]

_PACKAGES = ("kerneldsl", "targets", "stdlib_kernels", "kerneldsl_demo")


@dataclass(frozen=True)
class Import:
    """One import statement.

    Attributes
    ----------
    importer, imported : str
        Dotted names of the modules.
    line : int
        Where in the importer's file it stands.
    """

    importer: str
    imported: str
    line: int

    def describe(self, folder: Path) -> str:
        """Return ``file:line`` and what is imported, for modules in packages of a folder."""
        path = folder.joinpath(*self.importer.split("."))
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        return f"{file.relative_to(folder)}:{self.line}: imports {self.imported}"


def find_cycles(packages: Sequence[str]) -> list[tuple[Import, ...]]:
    """Return the shortest cycle through each import that is part of one.

    Parameters
    ----------
    packages : sequence of str
        Packages that can be imported; they are read, not run.

    Returns
    -------
    list of tuple of Import
        Each cycle once, its imports in order, beginning at the first module by name.
    """
    graph = grimp.build_graph(*packages, exclude_type_checking_imports=True, cache_dir=None)
    found = set()
    for importer in graph.modules:
        for imported in graph.find_modules_directly_imported_by(importer):
            chain = graph.find_shortest_chain(importer=imported, imported=importer)
            if chain:
                first = chain.index(min(chain))
                found.add(chain[first:] + chain[:first])
    return [
        tuple(
            Import(a, b, graph.get_import_details(importer=a, imported=b)[0]["line_number"])
            for a, b in zip(cycle, cycle[1:] + cycle[:1], strict=True)
        )
        for cycle in sorted(found)
    ]


def main() -> int:
    """List the cycles of the product; return the status of the process."""
    cycles = find_cycles(_PACKAGES)
    for cycle in cycles:
        print(" → ".join((*(each.importer for each in cycle), cycle[0].importer)))
        for each in cycle:
            print(f"  {each.describe(Path.cwd())}")
    print(f"Cycles of modules: {len(cycles) or 'none'}.")
    return bool(cycles)


if __name__ == "__main__":
    sys.exit(main())
