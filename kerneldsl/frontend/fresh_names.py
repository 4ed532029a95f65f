"""Names for the variables that passes add to a function."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.reserved import RESERVED_PREFIX

__all__ = ["FreshNames"]

#: Reserved names that are made here continue with another underscore. No fixed name of generated
#: code (``kd_tx``, ``kd_range``) does, and no user's name begins with the prefix.
_PREFIX = RESERVED_PREFIX + "_"


class FreshNames:
    """Makes names that occur nowhere else in one function.

    Every pass over a function that adds variables takes them from here; none composes a name from
    a stem and its own number, and none reads the meaning of a variable off its name.

    Parameters
    ----------
    taken : iterable of str
        Names that exist already.
    """

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)

    @classmethod
    def for_unit(cls, unit: FunctionUnit) -> FreshNames:
        """Make names for passes over one unit.

        Parameters
        ----------
        unit : FunctionUnit
            Whose variables and outside names are taken.
        """
        variables = (n.id for n in walk_here(unit.tree) if isinstance(n, ast.Name))
        outside = (*unit.uses, *unit.callees, *unit.constants, *unit.namespace)
        return cls((*variables, *unit.parameters, *outside))

    def make(self, stem: str) -> str:
        """Return a new name.

        Parameters
        ----------
        stem : str
            What the variable is for, or the name it had in the user's source.

        Returns
        -------
        str
            ``kd__<stem>``, with a number after it if that exists already.
        """
        stem = stem.removeprefix(_PREFIX).removeprefix(RESERVED_PREFIX)
        name, number = _PREFIX + stem, 1
        while name in self._taken:
            number += 1
            name = f"{_PREFIX}{stem}_{number}"
        self._taken.add(name)
        return name
