"""Functions that are in a function: ``f = lambda x: …`` and ``def f(x): …``.

Such a function sees the variables of the one around it as they are when it is called. It becomes a
device function with a parameter for each variable that it reads, and a call gives it their values.
Its default values are computed at its definition, as in Python.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from kerneldsl.frontend.lambdas import function_of_lambda
from kerneldsl.frontend.report import Reporter
from kerneldsl.frontend.trees import Transformer, store, walk_here
from kerneldsl.language.reserved import RESERVED_PREFIX
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["GivenFunction", "LocalFunction", "as_local", "take_local_functions"]


@dataclass(frozen=True, eq=False)
class LocalFunction:
    """A function that is in another one, and has been taken out of it."""

    #: Name of the function.
    name: str
    #: The function.
    node: ast.FunctionDef
    #: Parameters as written, keyword-only ones last, and then the one for all others.
    parameters: tuple[str, ...]
    #: Number of parameters that can be passed by position.
    positional_count: int
    #: Variable of the outer function with the default value of each parameter that has one.
    defaults: dict[str, str]
    #: The parameter with the tuple of all other arguments, such as ``rest`` of ``f(x, *rest)``.
    rest: str | None = None

    def needs(self, around: Mapping[str, LocalFunction], variables: set[str]) -> tuple[str, ...]:
        """Return the outer function's variables that it reads, by itself or in what it calls.

        - `around`: local functions that it sees.
        - `variables`: variables of the outer function.
        """
        found: set[str] = set()
        pending, seen = [self], {self}
        while pending:
            reading = pending.pop()
            for name in _names_of(reading.node)[1]:
                called = around.get(name)
                if called is None:
                    found |= {name} & variables
                elif called not in seen:
                    seen.add(called)
                    pending.append(called)
                    found.update(called.defaults.values())
                else:
                    found.update(called.defaults.values())
        return tuple(sorted(found - _names_of(self.node)[0]))


@dataclass(frozen=True)
class GivenFunction:
    """A local function that is an argument: what it reads of the function around it is constant."""

    local: LocalFunction
    #: Variables of the function around it, with their values.
    values: tuple[tuple[str, Any], ...]

    def __repr__(self) -> str:
        return self.local.name


def take_local_functions(tree: ast.FunctionDef, reporter: Reporter) -> dict[str, LocalFunction]:
    """Take the functions out of a function, in place, which leaves their default values.

    - raises `UnsupportedConstructError` if a name is given to two functions, or to a function and
      another value; if a function has decorators or takes any keywords.
    """
    taking = _Taking(reporter)
    taking.generic_visit(tree)
    taking.check_names(tree)
    return taking.found


class _Taking(Transformer):
    """Replaces definitions by assignments of their default values."""

    def __init__(self, reporter: Reporter) -> None:
        self.found: dict[str, LocalFunction] = {}
        self._reporter = reporter

    def visit_FunctionDef(self, node: ast.FunctionDef) -> list[ast.stmt]:
        if node.decorator_list:
            self._reporter.fail(
                node.decorator_list[0],
                f"{node.name} is defined in a function and has a decorator",
                f"Leave it out, or write {node.name} outside the function",
            )
        return self._take(node.name, node, node)

    def visit_Assign(self, node: ast.Assign) -> ast.stmt | list[ast.stmt]:
        if not isinstance(node.value, ast.Lambda):
            return node
        target = node.targets[0]
        if len(node.targets) != 1 or not isinstance(target, ast.Name):
            return node  # the lambda is refused where it is met
        return self._take(target.id, function_of_lambda(node.value, target.id), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt | list[ast.stmt]:
        if isinstance(node.value, ast.Lambda) and isinstance(node.target, ast.Name):
            return self._take(node.target.id, function_of_lambda(node.value, node.target.id), node)
        return node

    def check_names(self, tree: ast.FunctionDef) -> None:
        """Refuse names that hold something else, too."""
        if not self.found:
            return
        for node in walk_here(tree):
            name = node.arg if isinstance(node, ast.arg) else None
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                name = node.id
            if name in self.found:
                self._refuse_twice(name, node)

    def _refuse_twice(self, name: str, node: ast.AST) -> None:
        self._reporter.fail(
            node,
            f"{name} is a function, and is given another value",
            "Give each its own name; for a function that depends on a condition, write the "
            "condition into the function",
            limit="It must be known when the kernel is compiled which function is called",
        )

    def _take(self, name: str, function: ast.FunctionDef, node: ast.stmt) -> list[ast.stmt]:
        if name in self.found:
            self._refuse_twice(name, node)
        if function.args.kwarg is not None:
            self._reporter.fail(
                function.args.kwarg,
                f"{name} takes any keywords, in {function.args.kwarg.arg}",
                "Name each parameter, without **",
            )
        self.found[name], values = as_local(name, function)
        left: list[ast.stmt] = [
            ast.copy_location(ast.Assign([store(variable)], value), value)
            for variable, value in values.items()
        ]
        return left or [ast.copy_location(ast.Pass(), node)]


def as_local(name: str, function: ast.FunctionDef) -> tuple[LocalFunction, dict[str, ast.expr]]:
    """Return a function that is in another one, and its default values by their variables."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    given = [None] * (len(positional) - len(arguments.defaults)) + [*arguments.defaults]
    every = [*positional, *arguments.kwonlyargs]
    parameters = [each.arg for each in every]
    rest = None if arguments.vararg is None else arguments.vararg.arg
    if rest is not None:
        parameters.append(rest)
    defaults: dict[str, str] = {}
    values: dict[str, ast.expr] = {}
    for parameter, value in zip(every, [*given, *arguments.kw_defaults], strict=True):
        if value is not None:
            variable = f"{RESERVED_PREFIX}default_{name}_{parameter.arg}_"
            defaults[parameter.arg], values[variable] = variable, value
    return LocalFunction(name, function, tuple(parameters), len(positional), defaults, rest), values


def name_every_parameter(tree: ast.FunctionDef) -> None:
    """Make ordinary parameters of all, in place: calls in the normal form are positional."""
    arguments = tree.args
    arguments.args = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    arguments.posonlyargs, arguments.kwonlyargs, arguments.kw_defaults = [], [], []


def name_rest(tree: ast.FunctionDef) -> str | None:
    """Make an ordinary parameter of the rest, in place, and return its name; it is a tuple."""
    rest = tree.args.vararg
    if rest is None:
        return None
    tree.args.args.append(rest)
    tree.args.vararg = None
    return rest.arg


def _names_of(function: ast.FunctionDef | ast.Lambda) -> tuple[set[str], set[str]]:
    """Return the names that a function has itself, and those that it reads from outside."""
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += filter(None, (arguments.vararg, arguments.kwarg))
    own, read = {each.arg for each in every}, set[str]()
    body = function.body if isinstance(function.body, list) else [function.body]
    pending: list[ast.AST] = list(body)
    while pending:
        node = pending.pop()
        match node:
            case ast.FunctionDef() | ast.Lambda():
                if isinstance(node, ast.FunctionDef):
                    own.add(node.name)
                read |= _names_of(node)[1]
                pending += [*node.args.defaults, *filter(None, node.args.kw_defaults)]
                continue
            case ast.Name(id=name, ctx=ast.Load()):
                read.add(name)
            case ast.Name(id=name):
                own.add(name)
        pending += ast.iter_child_nodes(node)
    return own, read - own
