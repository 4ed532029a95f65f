"""Values that a function reads from outside: constants, library objects, and how they change."""

from __future__ import annotations

import ast
import re
import types
from typing import Any

from kerneldsl.frontend.attribute_chains import (
    draws,
    is_library,
    is_linear_algebra,
    is_of_times,
    root_of,
    steady_reader,
)
from kerneldsl.frontend.captured import (
    compiled_value,
    constant_problem,
    is_constant,
    make_captured,
    plain_value,
)
from kerneldsl.frontend.foreign import foreign_intrinsic
from kerneldsl.frontend.refusals import refuse_foreign
from kerneldsl.frontend.report import Reporter
from kerneldsl.frontend.resolve import Namespace, Resolved
from kerneldsl.frontend.syntax import load
from kerneldsl.frontend.trees import Transformer
from kerneldsl.frontend.unit import Captured, FunctionUnit

__all__ = ["OutsideValues"]


class OutsideValues(Transformer):
    """Gives values from outside a function their names in its normal form.

    Parameters
    ----------
    scope : Namespace
        What names mean.
    reporter : Reporter
        Raises.
    taken : set of str
        Names that the function uses.
    is_plain : bool
        Whether it is a Numba function, in which everything but a call of another is left alone.
    """

    def __init__(
        self, scope: Namespace, reporter: Reporter, *, taken: set[str], is_plain: bool
    ) -> None:
        self._scope = scope
        self._reporter = reporter
        self._taken = taken
        self._is_plain = is_plain
        self._names: dict[str, str] = {}
        self._captured: dict[str, Captured] = {}
        self.callees: dict[str, FunctionUnit] = {}
        self.constants: dict[str, Captured] = {}
        self.namespace: dict[str, Any] = {}

    def all_captured(self) -> tuple[Captured, ...]:
        """Return what this function and its callees captured."""
        found = list(self._captured.values())
        for callee in self.callees.values():
            found += [c for c in callee.captured if all(c is not known for known in found)]
        return tuple(found)

    def _constant(self, node: ast.expr, resolved: Resolved) -> ast.expr:
        self._check_constant(resolved)
        name = self._name_of(resolved.path)
        captured = self._capture(name, resolved)
        plain = compiled_value(captured)
        self.constants[name] = (
            captured
            if plain is captured.value
            else Captured(name, resolved.path, plain, lambda: plain_value(captured.read()))
        )
        return _renamed(name, resolved, node)

    def _check_constant(self, resolved: Resolved) -> None:
        problem = constant_problem(resolved.value)
        if problem is not None:
            what, remedy = problem
            self._reporter.fail(
                resolved.node,
                f"The captured value {resolved.path} {what}",
                remedy,
                value=resolved.value,
            )

    def _capture_static(self, node: ast.expr) -> Any:
        """Return the value of an outside chain in a static argument."""
        resolved = self._scope.resolve(node)
        if resolved.foreign is not None:
            ours = foreign_intrinsic(resolved.foreign)
            if ours is not None:
                return ours
            refuse_foreign(self._reporter, node, resolved.foreign)
        value = resolved.value
        if is_constant(value):
            self._check_constant(resolved)
            self._capture(resolved.path, resolved)
        else:
            self._watch(node, resolved)
        for attribute in resolved.rest:
            value = getattr(value, attribute)
        return plain_value(value) if is_constant(value) else value

    def _capture(self, name: str, resolved: Resolved) -> Captured:
        known = self._captured.get(resolved.path)
        if known is None:
            known = make_captured(name, resolved.path, resolved.value, resolved.read)
            self._captured[resolved.path] = known
        return known

    def _keep(self, resolved: Resolved, node: ast.expr) -> ast.expr:
        """Leave a chain as it is, and its first name in the namespace.

        A chain through an object that is no module becomes one name: compilers know modules alone.
        """
        root = root_of(node)
        owner = self._scope.resolve(root).value
        if draws(owner, resolved.path):
            self._reporter.fail(
                node,
                f"{resolved.path} needs a random number generator's state, which threads lack",
                "Write kd.random.uniform_float32(seed, i) or another of kd.random, or draw the "
                "numbers before the launch, and pass them in an array",
            )
        if is_linear_algebra(resolved.value):
            self._reporter.fail(
                node,
                f"{resolved.path} works on whole matrices in memory of its own, which threads lack",
                "Write a loop over the elements, or call it outside the kernel",
            )
        if is_of_times(resolved.value) and not self._is_plain:
            self._reporter.fail(
                node,
                f"{resolved.path} is not a function of kernels",
                "Pass dates and durations as arguments; x != x says whether x is NaT",
            )
        self._watch(node, resolved)
        is_name = node is root and root.id.isidentifier()  # no item of a tuple
        if self._is_plain or is_name or isinstance(owner, types.ModuleType):
            self.namespace[root.id] = owner
            return node
        name = self._name_of(resolved.path)
        self.namespace[name] = resolved.value
        return _renamed(name, resolved, node)

    def _watch(self, node: ast.expr, resolved: Resolved) -> None:
        """Have launches see when a chain that is no constant comes to mean something else.

        Chains that begin with a library under its usual name, ``np.float32``, are not looked at
        again: that would cost every launch something, and programs do not give ``np`` another
        meaning.
        """
        root = root_of(node)
        if is_library(root.id, self._scope.resolve(root).value):
            return
        path, read = resolved.path, steady_reader(resolved.read)
        self._captured.setdefault(path, make_captured(path, path, read(), read))

    def _name_of(self, path: str) -> str:
        """Return a name of the unit's own for what a chain means."""
        name = self._names.get(path)
        if name is None:
            name = path
            if not name.isidentifier():
                base = name = re.sub(r"\W+", "_", path).rstrip("_")
                count = 2
                while name in self._taken:
                    name, count = f"{base}_{count}", count + 1
            self._taken.add(name)
            self._names[path] = name
        return name


def _renamed(name: str, resolved: Resolved, node: ast.expr) -> ast.expr:
    """Return a chain with its resolved part as one name."""
    result: ast.expr = ast.copy_location(load(name), resolved.node)
    for attribute in resolved.rest:
        result = ast.copy_location(ast.Attribute(result, attribute, ast.Load()), node)
    return result
