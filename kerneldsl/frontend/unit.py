"""The normal form of a kernel or device function, which every later stage reads.

A unit is a Python ``FunctionDef`` in which every name from outside the function has been resolved:

* an intrinsic is a call of a reserved name, ``kd_grid_0(…)`` say, that :attr:`FunctionUnit.uses`
  maps to an :class:`IntrinsicUse`; its arguments are the run-time ones alone, constants (``ndim``,
  ``shape``, ``dtype``) are in :attr:`IntrinsicUse.static`, defaults are filled in. An intrinsic
  that is read and not called (``kd.threadIdx.x``) is a call without arguments;
* a call of a device function (``@kd.func``) or of a Numba ``@njit`` function is a call by a name
  that :attr:`FunctionUnit.callees` maps to that function's own unit; its arguments are positional;
* a captured constant is a name in :attr:`FunctionUnit.constants`; an attribute chain that ends in a
  constant (``config.WIDTH``) has become one name;
* any other outside object (a module, ``np.float32``, ``math.sin``, ``min``) keeps its spelling, and
  its first name is in :attr:`FunctionUnit.namespace`;
* docstring, annotations, decorators and default values are gone.

Nodes keep their place in the user's file, so whatever is compiled from them reports the user's
lines. The tree of a unit is never modified in place: a pass copies it.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, NamedTuple

from kerneldsl.errors import SourceLocation, TargetUnavailableError
from kerneldsl.frontend.trees import walk_here
from kerneldsl.language.intrinsics.intrinsic import Intrinsic
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.locks import ForkSafeLock

if TYPE_CHECKING:
    from kerneldsl.frontend.frozen import FrozenArrays, WatchedArrays
    from kerneldsl.frontend.linked_code import LinkedCode

__all__ = ["Captured", "DeferredUnit", "FunctionUnit", "IntrinsicUse"]


class IntrinsicUse(NamedTuple):
    """One intrinsic at one place of a unit."""

    #: The called intrinsic.
    intrinsic: Intrinsic
    #: Values of its constant parameters: ``ndim`` an int, ``shape`` a tuple of 1-3 ints (``(0,)``
    #: for dynamic shared memory), ``dtype`` a name such as ``"float32"``.
    static: dict[str, Any]

    @property
    def is_of_tiles(self) -> bool:
        """True for an operation on tiles."""
        return self.intrinsic.form is not None


class Captured(NamedTuple):
    """A value from outside the function, and how to read it again at a later launch."""

    #: The name it has in the unit.
    name: str
    #: The name as the user wrote it, such as ``config.WIDTH``.
    path: str
    #: Value when the unit was made.
    value: Any
    #: Reads it now; raises ``NameError`` if it has been deleted. An equal constant that took the
    #: place of `value` reads as `value`.
    read: Callable[[], Any]
    #: Reads the object that is there now, whatever it is equal to.
    source: Callable[[], Any] | None = None
    #: The arrays in `value`; `read` gives something else while they are not what they were, and
    #: permanently once read-only ones were found writable.
    arrays: FrozenArrays | WatchedArrays | None = None


@dataclass(frozen=True, eq=False)
class FunctionUnit:
    """One function in normal form.

    Parameters
    ----------
    name, qualname, module : str
        As the function calls itself.
    filename : str
        Where its source is.
    first_line : int
        Line of its ``def``.
    tree : ast.FunctionDef
        The body in normal form.
    parameters : tuple of str
        Names of its parameters, in order.
    uses : dict
        Reserved name to intrinsic.
    callees : dict
        Name to the unit of a called device function.
    constants : dict
        Name to captured constant (a number, a bool, a string, a tuple of those, a NumPy scalar or a
        read-only array, an unshared copy).
    namespace : dict
        Every other outside name to its object.
    captured : tuple of Captured
        What is compared by identity at each launch, callees' included.
    function : callable or None
        The Python function itself.
    is_plain_numba : bool
        Whether it is a Numba ``@njit`` function, which uses no intrinsic.
    linked : LinkedCode or None
        Of a linked function, the code that a GPU runs in the place of the body.
    hidden : tuple
        Arrays of a device that the function, or one that it calls, reads from outside. Its last
        parameters stand for them.
    reads : mapping
        What the front end has read to make the unit. For each Python function, the callees'
        too, it has chains of names from outside (``config``, ``config.WIDTH``) with what they are.
    follows_numba : bool
        Whether functions mean what numba.cuda's programs mean by them.
    signatures : tuple
        Of a function for several signatures, the kinds of the result and of the parameters of each.
    given : GivenFunction or None
        The local function that it is, if that is an argument.
    """

    name: str
    qualname: str
    module: str
    filename: str
    first_line: int
    tree: ast.FunctionDef
    parameters: tuple[str, ...]
    uses: dict[str, IntrinsicUse]
    callees: dict[str, FunctionUnit]
    constants: dict[str, Captured]
    namespace: dict[str, Any]
    captured: tuple[Captured, ...]
    function: Callable[..., Any] | None = None
    is_plain_numba: bool = False
    linked: LinkedCode | None = None
    hidden: tuple[Any, ...] = ()
    reads: Mapping[types.FunctionType, Mapping[str, Any]] = field(default_factory=dict)
    follows_numba: bool = False
    signatures: tuple[tuple[Any, tuple[Any, ...]], ...] = ()
    given: Any = None

    def __repr__(self) -> str:
        return self.name

    def place(self) -> SourceLocation:
        """Return the place of the function in the user's file."""
        return self.locate(self.tree)

    def locate(self, node: ast.AST) -> SourceLocation:
        """Return the place of a node in the user's file."""
        return SourceLocation(
            self.filename,
            getattr(node, "lineno", self.first_line),
            getattr(node, "col_offset", None),
            getattr(node, "end_col_offset", None),
            self.qualname,
        )

    def locate_use(self, name: str) -> SourceLocation:
        """Return the place of the first call by a reserved name."""
        calls = (
            node
            for node in walk_here(self.tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == name
        )
        return self.locate(next(calls, self.tree))

    def use_of(self, node: ast.AST) -> IntrinsicUse | None:
        """Return the intrinsic that a call node calls, or ``None``."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return self.uses.get(node.func.id)
        return None

    def callee_of(self, node: ast.AST) -> FunctionUnit | None:
        """Return the device function that a call node calls, or ``None``."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return self.callees.get(node.func.id)
        return None

    def reachable(self) -> Iterator[FunctionUnit]:
        """Return this unit and every unit it calls, each once, callers first."""
        seen: set[int] = set()
        pending = [self]
        while pending:
            unit = pending.pop()
            if id(unit) not in seen:
                seen.add(id(unit))
                yield unit
                pending.extend(unit.callees.values())

    def linked_functions(self) -> dict[FunctionUnit, LinkedCode]:
        """Return the linked functions among those, with their code."""
        return {unit: unit.linked for unit in self.reachable() if unit.linked is not None}

    def require_bodies(self, target: str) -> None:
        """Raise `TargetUnavailableError` if a function among those is for a GPU alone."""
        for code in self.linked_functions().values():
            if not code.has_body:
                raise TargetUnavailableError(
                    f"{code.symbol} has code for a GPU alone, and {self.qualname} calls it",
                    where=self.place(),
                    value=target,
                    limit=f"The target {target!r} needs a Python function with its meaning",
                    remedy="Write @kd.func(link=…, signature=…) above one, or run on a machine "
                    "with an NVIDIA GPU",
                )

    def all_uses(self) -> Iterator[IntrinsicUse]:
        """Return the intrinsics that this unit, and those it calls, use."""
        return (use for unit in self.reachable() for use in unit.uses.values())

    def uses_tiles(self) -> bool:
        """Return whether this unit, or one that it calls, has operations on tiles."""
        return any(use.is_of_tiles for use in self.all_uses())

    def uses_of_dtypes(self) -> Iterator[tuple[IntrinsicUse, str]]:
        """Yield the uses with the dtype of an argument, as `array(3, x.dtype)`, and its name."""
        for node in walk_here(self.tree):
            match node:
                case ast.Call(ast.Name(name), [ast.Attribute(ast.Name(owner), "dtype")]):
                    if name in self.uses:
                        yield self.uses[name], owner

    def straight_nodes(self) -> int:
        """Return the nodes of this unit and those it calls; 0 if there is a loop."""
        nodes = [node for unit in self.reachable() for node in walk_here(unit.tree)]
        return 0 if any(isinstance(node, ast.For | ast.While) for node in nodes) else len(nodes)

    def __deepcopy__(self, memo: dict[int, Any]) -> FunctionUnit:
        """Return the unit itself: it is never changed, so copying a tree copies no unit."""
        return self

    def source(self) -> str:
        """Return the normal form as Python text."""
        return ast.unparse(self.tree)


#: Held while a unit is completed: one at a time.
_completing = ForkSafeLock()
#: Attributes that a unit has from the beginning; all others are determined together.
_AT_ONCE = (
    *("name", "qualname", "module", "filename", "first_line"),
    *("parameters", "captured", "function"),
)


class DeferredUnit(FunctionUnit):
    """A function with a normal form that is made when it is read; then it is a `FunctionUnit`.

    What is known of it must be what the front end would find. It calls no linked function.

    - `make`: makes the unit.
    - `**known`: the names, `parameters`, `captured` and `function` of the unit.
    """

    def __init__(self, make: Callable[[], FunctionUnit], **known: Any) -> None:
        assert known.keys() == set(_AT_ONCE)
        vars(self).update(known, _make=make)

    def linked_functions(self) -> dict[FunctionUnit, LinkedCode]:
        """Return none."""
        return {}

    def __getattr__(self, name: str) -> Any:
        """Make the normal form, because a part of it is read."""
        if name.startswith("_"):
            raise AttributeError(name)
        with _completing:
            make = vars(self).get("_make")
            if make is not None:
                made = vars(make())
                vars(self).update({n: each for n, each in made.items() if n not in _AT_ONCE})
                object.__setattr__(self, "__class__", FunctionUnit)
                del vars(self)["_make"]
        return getattr(self, name)
