"""Bring a Python function into the normal form that every later stage reads.

:func:`make_unit` finds the source, refuses what has no meaning on a device, gives every outside
name its meaning, and does the same for the functions that are called. The form itself is described
in :mod:`kerneldsl.frontend.unit`.
"""

from __future__ import annotations

import ast
import copy
import types
from collections.abc import Callable, Mapping
from typing import Any

from kerneldsl.errors import UnsupportedConstructError
from kerneldsl.frontend.constructs import refuse_unsupported
from kerneldsl.frontend.endings import refuse_missing_values
from kerneldsl.frontend.foreign import is_cuda_dispatcher, is_dispatcher
from kerneldsl.frontend.names import clean_function, local_constants, local_names, used_names
from kerneldsl.frontend.report import Reporter
from kerneldsl.frontend.resolve import Scope, device_function
from kerneldsl.frontend.rewrite import Rewriter
from kerneldsl.frontend.source import find_source
from kerneldsl.frontend.unit import FunctionUnit

__all__ = ["make_unit"]


def make_unit(
    function: Callable[..., Any],
    *,
    is_device: bool = False,
    constants: Mapping[str, Any] | None = None,
) -> FunctionUnit:
    """Take a function apart.

    Parameters
    ----------
    function : function
        A plain Python function: a kernel's, or with *is_device* a device function's.
    is_device : bool
        Whether it is a device function, which may return a value and have defaults.
    constants : mapping, optional
        Values of the function's keyword-only parameters, which become captured constants.

    Returns
    -------
    FunctionUnit
        With the units of every function it calls.

    Raises
    ------
    SourceUnavailableError
        Where there is no source.
    UnsupportedConstructError
        For a construct, name or captured value that has no meaning on a device; with its place and
        what to write instead.
    """
    given = dict(constants or {})
    return _Session().make(device_function(function) or function, given, is_device=is_device)


class _Session:
    """The functions met while one kernel is taken apart, each made once."""

    def __init__(self) -> None:
        self._made: dict[types.FunctionType, FunctionUnit] = {}
        self._open: list[types.FunctionType] = []

    def callee(self, value: Any, node: ast.AST, reporter: Reporter) -> FunctionUnit | None:
        """Return the unit of a device function or Numba function; ``None`` for anything else."""
        function = device_function(value)
        is_plain = False
        if function is None:
            if not is_dispatcher(value):
                return None
            function = value.py_func
            is_plain = not is_cuda_dispatcher(value)
        if function in self._open:
            path = [f.__name__ for f in self._open[self._open.index(function) :]]
            reporter.fail(
                node,
                f"{function.__name__} calls itself: {' → '.join([*path, function.__name__])}",
                "Write a loop",
                limit="Device functions cannot be recursive",
            )
        return self.make(function, {}, is_device=True, is_plain=is_plain)

    def make(
        self,
        function: Any,
        constants: Mapping[str, Any],
        *,
        is_device: bool = False,
        is_plain: bool = False,
    ) -> FunctionUnit:
        """Make the unit of one function, and of those it calls."""
        known = self._made.get(function)
        if known is not None:
            return known
        source = find_source(function)
        qualname = function.__qualname__
        reporter = Reporter(source.filename, qualname)
        if not is_plain:
            _check_parameters(source.node, constants, is_device, reporter)
            refuse_unsupported(source.node, reporter)
        tree = clean_function(copy.deepcopy(source.node))
        tree.args.kwonlyargs, tree.args.kw_defaults = [], []
        scope = Scope(function, local_names(tree, function) - set(constants), reporter, constants)
        rewriter = Rewriter(
            scope,
            reporter,
            self.callee,
            taken=used_names(tree),
            local_constants=local_constants(tree),
            is_plain=is_plain,
        )
        self._open.append(function)
        try:
            tree.body = [rewriter.visit(s) for s in tree.body]
        finally:
            self._open.pop()
        refuse_missing_values(tree, rewriter.callees, reporter)
        if not is_device:
            _check_returns(tree, reporter)
        tree.name = function.__name__
        unit = FunctionUnit(
            name=function.__name__,
            qualname=qualname,
            module=function.__module__ or "",
            filename=source.filename,
            first_line=source.first_line,
            tree=ast.fix_missing_locations(tree),
            parameters=tuple(a.arg for a in (*tree.args.posonlyargs, *tree.args.args)),
            uses=rewriter.uses,
            callees=rewriter.callees,
            constants=rewriter.constants,
            namespace=rewriter.namespace,
            captured=rewriter.all_captured(),
            function=function,
            is_plain_numba=is_plain,
        )
        self._made[function] = unit
        return unit


def _check_parameters(
    node: ast.FunctionDef, constants: Mapping[str, Any], is_device: bool, reporter: Reporter
) -> None:
    arguments = node.args
    if arguments.kwonlyargs and not is_device:
        _check_compile_time(node, constants, reporter)
        arguments = copy.copy(arguments)
        arguments.kwonlyargs = []
    odd = [
        (arguments.vararg, "*"),
        (arguments.kwarg, "**"),
        (arguments.kwonlyargs[0] if arguments.kwonlyargs else None, "keyword-only "),
        (arguments.posonlyargs[0] if arguments.posonlyargs else None, "positional-only "),
    ]
    for parameter, kind in odd:
        if parameter is not None:
            reporter.fail(
                parameter,
                f"{node.name} has a {kind}parameter, {parameter.arg}",
                "Name each parameter, without *, ** or /",
            )
    if arguments.defaults and not is_device:
        reporter.fail(
            arguments.defaults[0],
            f"The kernel {node.name} has a parameter with a default value",
            "Give the value at each launch, or capture it from a global",
        )


def _check_compile_time(
    node: ast.FunctionDef, constants: Mapping[str, Any], reporter: Reporter
) -> None:
    """Refuse keyword-only parameters that no space has values for, or that are assigned to."""
    for parameter in node.args.kwonlyargs:
        if parameter.arg not in constants:
            known = ", ".join(constants)
            reporter.fail(
                parameter,
                f"{node.name} has a keyword-only parameter, {parameter.arg}, without a value",
                f"Give it values: @kd.kernel(space=kd.Space(block=[…], {parameter.arg}=[…])), or "
                "name the parameter without *",
                limit="Keyword-only parameters are compile-time constants, whose values a space "
                "gives" + (f"; this one has {known}" if known else ""),
            )
    names = (each for each in ast.walk(node) if isinstance(each, ast.Name))
    for each in names:
        if each.id in constants and not isinstance(each.ctx, ast.Load):
            reporter.fail(
                each,
                f"{node.name} assigns to {each.id}, a compile-time parameter",
                "Use another name for the variable",
            )


def _check_returns(tree: ast.FunctionDef, reporter: Reporter) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Return) and node.value is not None:
            if isinstance(node.value, ast.Constant) and node.value.value is None:
                node.value = None
                continue
            reporter.fail(
                node,
                f"The kernel {tree.name} returns a value",
                "Write the result into an array argument; a function that returns a value is "
                "decorated with @kd.func",
                error=UnsupportedConstructError,
            )
