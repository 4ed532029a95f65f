"""Values that a function reads from outside, and refusals of those that kernels cannot have."""

from __future__ import annotations

import ast
import builtins
import enum
import math
import re
import types
from typing import Any, NoReturn

import numpy as np

from kerneldsl.errors.values import safe_repr
from kerneldsl.frontend.captured import (
    CAPTURABLE,
    CellReader,
    compiled_value,
    constant_problem,
    holds_functions,
    is_constant,
    make_captured,
    plain_value,
    steady_reader,
)
from kerneldsl.frontend.constructs import BUILTINS
from kerneldsl.frontend.foreign import (
    foreign_group,
    foreign_intrinsic,
    foreign_remedy,
    is_numba_type,
)
from kerneldsl.frontend.report import Reporter
from kerneldsl.frontend.resolve import HOST_LIBRARIES, Namespace, Resolved
from kerneldsl.frontend.trees import Transformer, load
from kerneldsl.frontend.unit import Captured, FunctionUnit
from kerneldsl.language.intrinsics.intrinsic import Dim3, Intrinsic, IntrinsicGroup, Typing

__all__ = [
    "WRITE_FUNCTION",
    "OutsideValues",
    "draws",
    "is_array_of_device",
    "is_bound",
    "is_buffer_function",
    "is_library",
    "is_linear_algebra",
    "is_of_times",
    "is_read",
    "message_of",
    "refuse_builtin",
    "refuse_foreign",
    "refuse_group",
    "refuse_unknown",
    "root_of",
    "spelling",
]


class OutsideValues(Transformer):
    """Gives values from outside a function their names in its normal form.

    - `scope`: meanings of names.
    - `taken`: names that the function uses.
    - `is_plain`: whether it is a Numba function, in which everything but a call of another is left
      alone.
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

    def _is_read_outside(self, node: ast.expr) -> bool:
        is_chain = isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
        return is_chain and self._scope.is_outside(node)

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

    def _default(self, node: ast.Call, path: str, value: Any) -> ast.expr:
        """Return the constant that a parameter without an argument has."""
        if not is_constant(value) or constant_problem(value) is not None:
            self._reporter.fail(
                node,
                f"The default value of {path} is {safe_repr(value)}, which cannot be a constant",
                "Give the argument in the call",
                limit=CAPTURABLE,
                value=value,
            )
        if type(value) in (bool, int, float) and not math.isnan(value):  # nan has no literal
            return ast.copy_location(ast.Constant(value), node)
        name = self._name_of(path)
        held = make_captured(name, path, value, CellReader(types.CellType(value), name))
        if held.arrays is not None:
            self._captured[path] = held
        # No launch looks at another one again: the function is captured, and its defaults with it.
        self.constants[name] = held._replace(value=compiled_value(held))
        return ast.copy_location(load(name), node)

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

    def _look(self, node: ast.expr) -> Any:
        """Return what an outside chain is on the host, without watching it."""
        resolved = self._scope.resolve(node)
        return NotImplemented if resolved.foreign or resolved.rest else resolved.value

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
                f"{resolved.path} needs memory for whole matrices, which a kernel cannot allocate",
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
        again. That would cost every launch something, and programs do not redefine ``np``.
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


#: Libraries with modules that keep their names while a program runs.
_LIBRARIES = ("cmath", "kerneldsl", "math", "numba", "numba_cuda", "numpy", "operator")
_ABBREVIATIONS = {"kerneldsl": "kd", "numba": "nb", "numpy": "np"}


def root_of(chain: ast.expr) -> ast.Name:
    """Return the first name of a chain of attributes."""
    while isinstance(chain, ast.Attribute):
        chain = chain.value
    assert isinstance(chain, ast.Name)
    return chain


def is_library(name: str, value: object) -> bool:
    """Return whether a name is the usual one of a library's module."""
    if not isinstance(value, types.ModuleType):
        return False
    package, _, _ = value.__name__.partition(".")
    usual = (value.__name__.rpartition(".")[2], _ABBREVIATIONS.get(value.__name__))
    return package in _LIBRARIES and name in usual


def draws(owner: object, path: str) -> bool:
    """Return whether a chain leads into Python's or NumPy's random numbers."""
    module = owner.__name__ if isinstance(owner, types.ModuleType) else ""
    if module in ("random", "numpy.random") or (
        module == "numpy" and path.split(".")[1:2] == ["random"]
    ):
        return True
    return type(getattr(owner, "__self__", None)).__module__ in ("random", "numpy.random.mtrand")


def is_array_of_device(value: object) -> bool:
    """Return whether a value is an array in memory of a device, of whichever library."""
    return not isinstance(value, type | np.generic) and hasattr(value, "__cuda_array_interface__")


def is_linear_algebra(value: object) -> bool:
    """Return whether a value is one of NumPy's functions that call LAPACK."""
    return str(getattr(value, "__module__", "")).startswith("numpy.linalg")


def is_of_times(value: object) -> bool:
    """Return whether a value is what NumPy makes and tests dates and durations with."""
    return any(value is each for each in (np.datetime64, np.timedelta64, np.isnat))


#: Remedy for a callable object that is not a function that can be compiled.
WRITE_FUNCTION = (
    "Write a function that computes the same of numbers, decorate it with @kd.func, and give it "
    "what the object holds as arguments"
)
#: Members of a group that a message lists.
_MOST_LISTED = 40


def refuse_group(reporter: Reporter, node: ast.expr, path: str, group: IntrinsicGroup) -> None:
    """Say which members there are of a group that is used bare."""
    members = [m if isinstance(group, Dim3) else f"{m}(…)" for m in dir(group)]
    reporter.fail(
        node,
        f"{path} is used without naming a member",
        f"Write {' or '.join(f'{path}.{m}' for m in members)}"
        if len(members) <= _MOST_LISTED
        else f"Write {path}.{members[0]}, or another of the {len(members)} of dir({path})",
    )


def refuse_foreign(reporter: Reporter, node: ast.expr, name: str) -> NoReturn:
    """Refuse a name of numba.cuda's that has no meaning here."""
    if foreign_group(name):
        from kerneldsl.language.intrinsics.table import INTRINSICS

        members = [n for n in INTRINSICS if n.startswith(name + ".")]
        remedy = f"Write {' or '.join(f'kd.{m}' for m in members)}"
        reporter.fail(node, f"cuda.{name} is used without naming a member", remedy)
    reporter.fail(node, f"numba.cuda's {name} is not available in a kernel", foreign_remedy(name))


def refuse_builtin(reporter: Reporter, node: ast.expr, resolved: Resolved) -> None:
    """Refuse a call of one of Python's own functions that can never be compiled."""
    name = getattr(resolved.value, "__name__", None)
    if isinstance(name, str) and getattr(builtins, name, None) is resolved.value:
        remedy = BUILTINS.get(name)
        if remedy is not None:
            reporter.fail(node, f"{name}() cannot be used in a kernel", remedy)


def is_buffer_function(resolved: Resolved) -> bool:
    """Return whether a chain is cffi's ``ffi.from_buffer``, which gives an array's pointer."""
    owner = getattr(resolved.value, "__self__", None)
    is_of_cffi = type(owner).__module__.partition(".")[0] == "cffi"
    return is_of_cffi and resolved.value.__name__ == "from_buffer"


def refuse_unknown(reporter: Reporter, node: ast.expr, resolved: Resolved) -> None:
    """Refuse an outside object, unless it is one that Numba may know."""
    value, path = resolved.value, resolved.path
    if isinstance(value, types.FunctionType):
        if (value.__module__ or "").partition(".")[0] in HOST_LIBRARIES:
            reporter.fail(
                node,
                f"{path} is a function for the host",
                "Call it outside the kernel",
                value=value,
            )
        return
    is_fine = (
        isinstance(value, type | types.ModuleType | enum.Enum)
        or (isinstance(value, types.BuiltinFunctionType) and not is_bound(value))
        or is_numba_type(value)
        or type(value).__module__.partition(".")[0] in ("numpy", "numba", "numba_cuda")
        or getattr(builtins, path, None) is value
    )
    # A module's generic functions: np.sqrt is a ufunc, np.sum an array function dispatcher.
    if not is_fine:
        remedy = f"Pass {path} as an argument, or capture the numbers in it"
        if isinstance(value, list):
            remedy = f"Capture tuple({path}) or np.array({path}) instead, under its own name"
        elif holds_functions(value):
            remedy = f"Call its functions, {path}[0](…), or loop over them, for f in {path}"
        elif callable(value):
            remedy = WRITE_FUNCTION
        elif isinstance(value, dict):
            remedy = "Give each value that is needed a separate name, and capture that"
        reporter.fail(
            node,
            f"The kernel captures {path}, which is of type {type(value).__name__}",
            remedy,
            limit=CAPTURABLE,
            value=value,
        )


def is_bound(value: object) -> bool:
    """Return whether a value is a method of an object, other than a module's function in C."""
    owner = getattr(value, "__self__", None)
    return owner is not None and not isinstance(owner, types.ModuleType)


def is_read(intrinsic: Intrinsic) -> bool:
    """Return whether an intrinsic is read, as ``threadIdx.x``, and not called."""
    return intrinsic.typing is Typing.INDEX


def spelling(intrinsic: Intrinsic) -> str:
    """Return how an intrinsic is written."""
    if is_read(intrinsic):
        return f"kd.{intrinsic.name}"
    return f"kd.{intrinsic.name}({', '.join(intrinsic.parameters)})"


def message_of(arguments: list[ast.expr]) -> ast.expr:
    """Return the text of an exception, which is made on the host: what was written, as a string."""
    first = arguments[0]
    if len(arguments) == 1 and isinstance(first, ast.Constant):
        text = str(first.value)
    elif len(arguments) == 1 and isinstance(first, ast.JoinedStr):
        text = "".join(
            str(part.value) if isinstance(part, ast.Constant) else "{" + _inside(part) + "}"
            for part in first.values
        )
    else:
        text = ", ".join(ast.unparse(a) for a in arguments)
    return ast.copy_location(ast.Constant(text), first)


def _inside(part: ast.expr) -> str:
    return ast.unparse(part.value) if isinstance(part, ast.FormattedValue) else ast.unparse(part)
