"""Name resolution of a function: closure cells, globals, builtins."""

from __future__ import annotations

import ast
import builtins
import enum
import types
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kerneldsl.errors import UndefinedAttributeError, UndefinedNameError
from kerneldsl.frontend.captured import AttributeReader, CellReader, GlobalReader, is_constant
from kerneldsl.frontend.foreign import foreign_name, is_dispatcher, is_of_drop_in, is_overloaded
from kerneldsl.frontend.report import Reporter
from kerneldsl.language.intrinsics.intrinsic import Intrinsic, IntrinsicGroup
from kerneldsl.language.other_names import closest_name, kernel_remedy

__all__ = ["HOST_LIBRARIES", "Namespace", "Resolved", "device_function", "is_kernel"]

#: Libraries with Python functions that Numba accepts or refuses.
NUMBA_LIBRARIES = ("numpy", "math", "cmath", "operator", "numba", "numba_cuda", "builtins")
#: Libraries with Python functions that are not for kernels.
HOST_LIBRARIES = ("kerneldsl", "targets")


class Resolved(NamedTuple):
    """Meaning of an attribute chain such as ``config.tile.WIDTH``."""

    #: The resolved part of the chain, as written.
    path: str
    #: Value of the chain. It is not read for numba.cuda's names, where `foreign` is set.
    value: Any
    #: Reads the value again.
    read: Callable[[], Any]
    #: Attributes that follow a constant and are read at run time, such as ``("shape",)``.
    rest: tuple[str, ...]
    #: The resolved part.
    node: ast.expr
    #: Name below ``numba.cuda``, such as ``"atomic.add"``.
    foreign: str | None = None


class Namespace:
    """The names a function sees.

    - `function`: the plain Python function.
    - `local_names`: names bound inside it, which hide outer ones.
    - `constants`: further names, with their values; they hide others.
    - `reads`: chains of names from outside to what they are; those that are resolved are added, and
      those that it has are not looked up.
    """

    def __init__(
        self,
        function: types.FunctionType,
        local_names: set[str],
        reporter: Reporter,
        constants: Mapping[str, Any],
        reads: dict[str, Any],
    ) -> None:
        self.local_names = local_names
        self._reporter = reporter
        self._globals = function.__globals__
        self._cells = dict(
            zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        )
        self._items: dict[str, Callable[[], Any]] = {}
        self._reads = reads
        # Constants are read like variables of an enclosing function.
        self._cells |= {name: types.CellType(value) for name, value in constants.items()}

    def add(self, path: str, read: Callable[[], Any]) -> None:
        """Have a path that no name can be, ``F[0]``, mean what a reader reads."""
        self._items[path] = read

    def is_outside(self, node: ast.AST) -> bool:
        """Return whether a node is a name, or a chain of attributes of a name, from outside."""
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id not in self.local_names

    def resolve(self, node: ast.expr) -> Resolved:
        """Follow a chain for which :meth:`is_outside` holds, up to its last compile-time value."""
        links: list[ast.Attribute] = []
        at: ast.expr = node
        while isinstance(at, ast.Attribute):
            links.append(at)
            at = at.value
        assert isinstance(at, ast.Name)
        root = at
        links.reverse()
        read = self._reader(root)
        path = root.id
        value = self._reads[path] if path in self._reads else read()
        self._reads[path] = value
        for i, link in enumerate(links):
            rest = tuple(x.attr for x in links[i:])
            foreign = foreign_name(value, rest)
            if foreign is not None:
                return Resolved(ast.unparse(node), None, read, (), node, foreign)
            if _ends_chain(value):
                return Resolved(path, value, read, rest, at)
            longer = f"{path}.{link.attr}"
            try:
                value = self._reads[longer] if longer in self._reads else getattr(value, link.attr)
            except AttributeError as error:
                self._reporter.fail(
                    link,
                    f"{path} has no attribute {link.attr!r}",
                    _spelled_otherwise(path, value, ".".join(rest))
                    or (
                        "Check the spelling"
                        if isinstance(value, types.ModuleType)
                        else f"{path} is {_describe(value)}; check the spelling"
                    ),
                    value=error,
                    error=UndefinedAttributeError,
                )
            read = AttributeReader(read, link.attr)
            self._reads[longer] = value
            path, at = longer, link
        foreign = foreign_name(value, ())
        if foreign is not None:
            return Resolved(path, None, read, (), at, foreign)
        return Resolved(path, value, read, (), at)

    def _reader(self, root: ast.Name) -> Callable[[], Any]:
        name = root.id
        if name in self._items:
            return self._items[name]
        if name in self._cells:
            cell = self._cells[name]
            try:
                cell.cell_contents  # noqa: B018 - an empty cell raises
            except ValueError:
                self._reporter.fail(
                    root,
                    f"{name} has no value yet",
                    f"Assign {name} before the kernel is launched",
                    error=UndefinedNameError,
                )
            return CellReader(cell, name)
        if name in self._globals or hasattr(builtins, name):
            return GlobalReader(self._globals, name)
        known = {*self.local_names, *self._cells, *self._globals, *vars(builtins)}
        near = closest_name(name, sorted(known))
        self._reporter.fail(
            root,
            f"The name {name} is not defined",
            "Define or import it before the kernel is launched, or pass it as an argument"
            + (f"; the closest name is {near}" if near else ""),
            error=UndefinedNameError,
        )


def _ends_chain(value: object) -> bool:
    """Return whether further attributes belong to run time (of a constant) or mean nothing."""
    if isinstance(value, enum.Enum | types.ModuleType):
        return False
    if isinstance(value, Intrinsic) or is_dispatcher(value):
        return True
    return is_constant(value) or is_kernel(value) or _decorated_function(value) is not None


def device_function(value: object) -> types.FunctionType | None:
    """Return the Python function that a kernel calls by an object, or ``None``.

    That is one of a ``@kd.func`` or ``@kd.kernel`` object, or a plain one of no library that Numba
    judges or that is for the host. What Numba calls for an overloaded one depends on types.
    """
    decorated = _decorated_function(value)
    if decorated is not None or not isinstance(value, types.FunctionType):
        return decorated
    if is_overloaded(value):
        return None
    module = value.__module__ or ""
    if is_of_drop_in(module):
        return value
    library = module.partition(".")[0]
    return None if library in (*NUMBA_LIBRARIES, *HOST_LIBRARIES) else value


def _decorated_function(value: object) -> types.FunctionType | None:
    function = getattr(value, "__kerneldsl_function__", None)
    return function if isinstance(function, types.FunctionType) else None


def is_kernel(value: object) -> bool:
    return getattr(value, "__kerneldsl_kernel__", False) is True


def _spelled_otherwise(path: str, value: object, name: str) -> str | None:
    """Say what to write instead of attributes that an object lacks, if anything is known."""
    if getattr(value, "__name__", None) == "kerneldsl":
        known = kernel_remedy(name)
        if known is not None:
            return known
    members = dir(value)
    near = closest_name(name.partition(".")[0], members)
    if isinstance(value, IntrinsicGroup):
        known = kernel_remedy(f"{repr(value).partition('.')[2]}.{name}")
        if known is not None or near is None:
            return known or f"{path} has {', '.join(members)}"
    return near and f"The closest name is {path}.{near}"


def _describe(value: object) -> str:
    if isinstance(value, types.ModuleType):
        return f"the module {value.__name__}"
    return f"of type {type(value).__name__}"
