"""Bring a Python function into the normal form that every later stage reads.

:func:`make_unit` finds the source, refuses what has no meaning on a device, and resolves every
outside name. It does the same for each function that is called. :mod:`kerneldsl.frontend.unit`
describes the normal form.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kerneldsl.errors import KernelError, SourceLocation, UnsupportedConstructError
from kerneldsl.frontend.constructs import (
    check_parameters,
    check_returns,
    refuse_assigned,
    refuse_unsupported,
)
from kerneldsl.frontend.foreign import is_cuda_dispatcher, is_dispatcher, names_numba_cuda
from kerneldsl.frontend.function_tuples import select_functions
from kerneldsl.frontend.local_functions import (
    GivenFunction,
    LocalFunction,
    name_every_parameter,
    name_rest,
    take_local_functions,
)
from kerneldsl.frontend.names import (
    clean_function,
    has_functions,
    local_constants,
    local_names,
    names_grid_group,
    used_names,
)
from kerneldsl.frontend.report import Reporter
from kerneldsl.frontend.resolve import Namespace, device_function
from kerneldsl.frontend.rewrite import Rewriter
from kerneldsl.frontend.source import find_source, is_lambda
from kerneldsl.frontend.trees import copy_tree, fill_locations, spread_rest, walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.utilities.dataclasses import dataclass

if TYPE_CHECKING:
    from kerneldsl.frontend.linked_code import LinkedCode

__all__ = ["make_unit"]


def make_unit(
    function: Callable[..., Any],
    *,
    is_device: bool = False,
    constants: Mapping[str, Any] | None = None,
    reads: Callable[[types.FunctionType], Mapping[str, Any] | None] | None = None,
    follows_numba: bool = False,
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
    reads : callable, optional
        Gives what some names from outside are, for a function; they are not looked up.
    follows_numba : bool, optional
        Whether the threads of a kernel return at a guard around its last statements, if these have
        a barrier.

    Returns
    -------
    FunctionUnit
        With the units of every function it calls.

    Raises
    ------
    SourceUnavailableError
        If there is no source.
    UnsupportedConstructError
        For a construct, name or captured value that has no meaning on a device; with its place and
        what to write instead.
    """
    given = dict(constants or {})
    plain = device_function(function) or function
    is_kernel = not (is_device or follows_numba)
    if is_kernel and isinstance(plain, types.FunctionType) and is_lambda(plain.__code__):
        raise UnsupportedConstructError(
            "A lambda cannot be a kernel",
            where=SourceLocation(plain.__code__.co_filename, plain.__code__.co_firstlineno),
            value=plain,
            remedy="Write it with def",
        )
    session = _Session(reads or (lambda function: None), follows_numba)
    #: Code that numba.cuda links with the functions that a kernel calls.
    session.link = getattr(plain, "__kerneldsl_link__", ())
    return session.make(plain, given, is_device=is_device)


@dataclass(frozen=True, eq=False)
class _Body:
    """One function on its way to the normal form.

    Parameters
    ----------
    function : function
        The Python function; of a function that is in another one, that one.
    tree : ast.FunctionDef
        Its definition, cleaned; it is rewritten in place.
    reporter : Reporter
        Raises.
    names : set of str
        Its parameters and variables.
    constants : mapping
        Values of compile-time parameters.
    local_constants : dict
        Variables that are bound once.
    functions : dict
        Functions that are in it, and those it sees of the functions around it.
    needed : tuple of str
        Parameters for the variables that it reads of the function around it.
    is_plain : bool
        Whether it is a Numba function.
    """

    function: types.FunctionType
    tree: ast.FunctionDef
    reporter: Reporter
    names: set[str]
    constants: Mapping[str, Any]
    local_constants: dict[str, ast.expr]
    functions: dict[str, LocalFunction]
    needed: tuple[str, ...] = ()
    is_plain: bool = False


class _Session:
    """The functions of one kernel, each normalized once."""

    def __init__(
        self,
        given: Callable[[types.FunctionType], Mapping[str, Any] | None],
        follows_numba: bool,
    ) -> None:
        self._given = given
        self._follows_numba = follows_numba
        self.link: tuple[LinkedCode, ...] = ()
        #: Code of linked functions with that of the kernel.
        self._linked: dict[LinkedCode, LinkedCode] = {}
        #: Values of chains of names from outside, for each function.
        self._reads: dict[types.FunctionType, dict[str, Any]] = {}
        self._made: dict[tuple[Any, ...], FunctionUnit] = {}
        self._local: dict[LocalFunction, FunctionUnit] = {}
        #: The function around each local one.
        self._around: dict[LocalFunction, _Body] = {}
        self._open: list[types.FunctionType | LocalFunction] = []

    def callee(
        self, value: Any, node: ast.AST, reporter: Reporter, constants: Mapping[str, Any]
    ) -> FunctionUnit | None:
        """Return the unit of a device function or Numba function; ``None`` for anything else.

        Parameters with a value in `constants` are compile-time constants.
        """
        if isinstance(value, FunctionUnit):
            return value
        if isinstance(value, GivenFunction):
            return self._make_given(value, node, reporter, constants)
        function = device_function(value)
        is_plain = False
        if function is None:
            if not is_dispatcher(value):
                return None
            function = value.py_func
            # numba.cuda compiles a function of numba.jit for kernels, and so it may use both.
            is_for_kernels = self._follows_numba and names_numba_cuda(function)
            if self._follows_numba and not getattr(value, "_can_compile", True):
                reporter.fail(
                    node,
                    f"{function.__name__} is compiled by Numba for the CPU, for signatures alone",
                    "Leave out the signatures of numba.jit, or use cuda.jit(device=True)",
                )
            is_plain = not (is_cuda_dispatcher(value) or is_for_kernels)
        self._refuse_recursion(function, node, reporter)
        try:
            code: LinkedCode | None = getattr(value, "__kerneldsl_linked__", None)
            if code is not None and self.link:
                both = replace(code, beside=(*code.beside, *self.link))
                code = self._linked.setdefault(code, both)
            return self.make(
                function,
                constants,
                is_device=True,
                is_plain=is_plain,
                code=code,
                signatures=getattr(value, "__kerneldsl_signatures__", ()),
            )
        except KernelError as error:
            if function is value:  # nobody has said that it is for kernels
                error.add_line(f"called at {reporter.locate(node).render()}")
            raise

    def _refuse_recursion(
        self, function: types.FunctionType | LocalFunction, node: ast.AST, reporter: Reporter
    ) -> None:
        if function not in self._open:
            return
        met = (*self._open[self._open.index(function) :], function)
        path = [f.name if isinstance(f, LocalFunction) else f.__name__ for f in met]
        reporter.fail(
            node,
            f"{path[0]} calls itself: {' → '.join(path)}",
            "Write a loop",
            limit="Device functions cannot be recursive",
        )

    def make(
        self,
        function: Any,
        constants: Mapping[str, Any],
        *,
        is_device: bool = False,
        is_plain: bool = False,
        code: LinkedCode | None = None,
        signatures: tuple[tuple[Any, ...], ...] = (),
    ) -> FunctionUnit:
        """Make the unit of one function, and of those it calls.

        `code` is that of a linked one; `signatures` have the kinds of result and parameters to
        which it converts. Of several each call has its own, so that they are left to it.
        """
        key = function, code, signatures, *((n, type(v), v) for n, v in constants.items())
        known = self._made.get(key)
        if known is not None:
            return known
        source = find_source(function)
        reporter = Reporter(source.filename, function.__qualname__)
        if not is_plain:
            check_parameters(source.node, constants, is_device, reporter)
            if source.node.args.defaults and not (is_device or self._follows_numba):
                given = source.node.args
                name = [*given.posonlyargs, *given.args][-len(given.defaults)].arg
                reporter.fail(
                    given.defaults[0],
                    f"The parameter {name} of the kernel {source.node.name} has a default value",
                    "Make it keyword-only, as in (x, *, n=3), or give the value at each launch",
                )
            refuse_unsupported(source.node, reporter)
        tree = copy_tree(source.node)
        takes = has_functions(tree) and not is_plain
        functions = take_local_functions(tree, reporter) if takes else {}
        if is_device and not is_plain:
            name_every_parameter(tree)
        rest = None if is_plain else name_rest(tree)
        if rest is not None and f"*{rest}" in constants:
            spread_rest(tree, rest, constants[f"*{rest}"])
        clean_function(tree)
        _write_loop_else(tree)
        if len(signatures) == 1:
            from kerneldsl.frontend.declared_types import convert_as_declared

            constants = {**constants, **convert_as_declared(tree, signatures[0])}
        if self._follows_numba and not is_device:
            from kerneldsl.frontend.guards import leave_at_guards

            leave_at_guards(tree, function)
        if constants:
            refuse_assigned(tree, constants, reporter)
            tree.args.args = [each for each in tree.args.args if each.arg not in constants]
        tree.args.kwonlyargs, tree.args.kw_defaults = [], []
        tree.name = source.node.name if is_lambda(function.__code__) else function.__name__
        body = _Body(
            function,
            tree,
            reporter,
            local_names(tree, function) - set(constants),
            constants,
            local_constants(tree),
            functions,
            is_plain=is_plain,
        )
        self._open.append(function)
        try:
            unit = self._finish(body, functions, is_device=is_device)
        finally:
            self._open.pop()
        if code is not None:
            from kerneldsl.frontend.declared_types import declare_types

            unit = declare_types(unit, code)
        if len(signatures) > 1:
            unit = replace(unit, signatures=signatures)
        self._made[key] = unit
        return unit

    def _finish(
        self, body: _Body, inner: Mapping[str, LocalFunction], *, is_device: bool
    ) -> FunctionUnit:
        """Resolve the names of a function in which some others are."""
        self._around |= dict.fromkeys(inner.values(), body)
        tree, reporter, function = body.tree, body.reporter, body.function
        is_special = is_device and bool(body.constants)  # whose names mean what this call gives
        if is_special:
            reads = {}
        elif function in self._reads:
            reads = self._reads[function]
        else:
            reads = self._reads[function] = dict(self._given(function) or {})
        names = body.names | set(body.functions)
        scope = Namespace(function, names, reporter, body.constants, reads)
        if names_grid_group(tree):
            from kerneldsl.frontend.grid_groups import name_grid_groups

            name_grid_groups(tree, scope, reporter)
        rewriter = Rewriter(
            scope,
            reporter,
            self.callee,
            taken=used_names(tree),
            local_constants=body.local_constants,
            local_functions=body.functions,
            make_local=lambda local, node: self._make_local(local, node, body),
            needed_by=lambda local: self._needed_by(local, body),
            is_plain=body.is_plain,
            takes_arrays=self._follows_numba,
        )
        if not body.is_plain:
            select_functions(tree, scope, rewriter.statics, body.functions, reporter)
        tree.body = rewriter.visit(ast.Module(tree.body, [])).body
        if rewriter.callees:
            from kerneldsl.frontend.endings import refuse_missing_values

            refuse_missing_values(tree, rewriter.callees, reporter)
        if not is_device:
            check_returns(tree, reporter)
        tree.args.args += [ast.copy_location(ast.arg(name), tree) for name in rewriter.hidden]
        return FunctionUnit(
            name=tree.name,
            qualname=reporter.qualname,
            module=function.__module__ or "",
            filename=reporter.filename,
            first_line=tree.lineno,
            tree=fill_locations(tree),
            parameters=tuple(a.arg for a in (*tree.args.posonlyargs, *tree.args.args)),
            uses=rewriter.uses,
            callees=rewriter.callees,
            constants=rewriter.constants,
            namespace=rewriter.namespace,
            captured=rewriter.all_captured(),
            function=function,
            is_plain_numba=body.is_plain,
            hidden=tuple(rewriter.hidden.values()),
            reads=self._reads,
            follows_numba=self._follows_numba,
        )

    def _make_local(self, local: LocalFunction, node: ast.AST, caller: _Body) -> FunctionUnit:
        """Make the unit of a function that is in another one, for a call of it."""
        self._refuse_recursion(local, node, caller.reporter)
        around = self._around.setdefault(local, caller)  # a lambda has been met in the caller
        needed = local.needs(around.functions, around.names)
        hidden = [name for name in needed if around is not caller and name not in caller.needed]
        if hidden:
            caller.reporter.fail(
                node,
                f"{local.name} reads {hidden[0]} of {around.reporter.qualname}, and "
                f"{caller.tree.name}, which calls it, has another variable {hidden[0]}",
                "Give one of them another name",
            )
        if local not in self._local:
            self._open.append(local)
            try:
                body, inner = self._local_body(local, needed, around, {})
                self._local[local] = self._finish(body, inner, is_device=True)
            finally:
                self._open.pop()
        return self._local[local]

    def _needed_by(self, local: LocalFunction, caller: _Body) -> tuple[str, ...]:
        """Return the variables that a local function reads, and those of its default values."""
        around = self._around.setdefault(local, caller)
        return (*local.needs(around.functions, around.names), *local.defaults.values())

    def _make_given(
        self,
        given: GivenFunction,
        node: ast.AST,
        reporter: Reporter,
        constants: Mapping[str, Any],
    ) -> FunctionUnit:
        """Make the unit of a local function that is an argument."""
        local = given.local
        self._refuse_recursion(local, node, reporter)
        key = given, *((n, type(v), v) for n, v in constants.items())
        if key not in self._made:
            values = {**dict(given.values), **constants}
            self._open.append(local)
            try:
                body, inner = self._local_body(local, (), self._around[local], values)
                self._made[key] = replace(self._finish(body, inner, is_device=True), given=given)
            finally:
                self._open.pop()
        return self._made[key]

    def _local_body(
        self,
        local: LocalFunction,
        needed: tuple[str, ...],
        around: _Body,
        values: Mapping[str, Any],
    ) -> tuple[_Body, dict[str, LocalFunction]]:
        """Return a local function without its parameters that are among the values."""
        name = local.name
        reporter = around.reporter._replace(qualname=f"{around.reporter.qualname}.{name}")
        tree = copy_tree(local.node)
        functions = take_local_functions(tree, reporter) if has_functions(tree) else {}
        name_every_parameter(tree)
        name_rest(tree)
        clean_function(tree)
        _write_loop_else(tree)
        constants = {n: e for n, e in around.local_constants.items() if n in needed}
        refuse_assigned(tree, {n: v for n, v in values.items() if n in local.parameters}, reporter)
        tree.args.args = [each for each in tree.args.args if each.arg not in values]
        tree.args.args += [ast.copy_location(ast.arg(each), tree) for each in needed]
        body = _Body(
            around.function,
            tree,
            reporter,
            local_names(tree),
            {**around.constants, **values},
            constants | local_constants(tree),
            {n: f for n, f in around.functions.items() if n not in local_names(tree)} | functions,
            needed,
        )
        return body, functions


def _write_loop_else(tree: ast.FunctionDef) -> None:
    """Replace ``else`` after loops, which few functions have."""
    if any(isinstance(each, ast.For | ast.While) and each.orelse for each in walk_here(tree)):
        from kerneldsl.frontend.guards import write_loop_else_as_if

        write_loop_else_as_if(tree, used_names(tree))
