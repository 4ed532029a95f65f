"""Arguments that must be known when the kernel is compiled: ``ndim``, ``shape``, ``order``."""

from __future__ import annotations

import ast
import enum
import types
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from kerneldsl.errors import ArgumentValueError
from kerneldsl.errors.values import safe_repr
from kerneldsl.frontend.foreign import is_numba_type
from kerneldsl.frontend.operators import BINARY_OPERATORS, COMPARISONS, UNARY_OPERATORS
from kerneldsl.frontend.report import Reporter
from kerneldsl.language.element_types import DTYPE_NAMES, ELEMENT_TYPES, element_name
from kerneldsl.language.intrinsics.intrinsic import Intrinsic, IntrinsicGroup, Typing
from kerneldsl.utilities.formatting import format_count
from kerneldsl.utilities.modules import is_of_numba

__all__ = ["NOT_KNOWN", "StaticEvaluator", "dtype_name"]

#: Message for arguments that are not constants.
NOT_KNOWN = "It must be known when the kernel is compiled"

_FUNCTIONS = (int, float, bool, len, min, max, abs, round, sum, tuple)
#: Types with comparisons that mean the same to Python and to compilers.
_PLAIN = (bool, int, float, str, types.NoneType)
_NUMBA_ALIASES = {"boolean": "bool", "intp": "int64", "uintp": "uint64"}


class StaticEvaluator:
    """Evaluates constant expressions of a function.

    - `capture`: gives the value of an outside name or attribute chain.
    - `is_outside`: whether a node is such a chain.
    - `local_constants`: local names that are assigned once, to the expression of their assignment.
    - `look`: gives what such a chain is, which launches do not watch for it; ``NotImplemented`` if
      it has no value of the host.
    """

    def __init__(
        self,
        capture: Callable[[ast.expr], Any],
        is_outside: Callable[[ast.AST], bool],
        local_constants: dict[str, ast.expr],
        reporter: Reporter,
        look: Callable[[ast.expr], Any],
    ) -> None:
        self._capture = capture
        self._look = look
        self._is_outside = is_outside
        self._local_constants = local_constants
        self._reporter = reporter
        self._open: set[str] = set()

    def bound_to(self, node: ast.expr) -> ast.expr:
        """Return the expression of the assignment of a variable that is bound once, or the node."""
        is_known = isinstance(node, ast.Name) and node.id in self._local_constants
        return self._local_constants[node.id] if is_known else node  # type: ignore[attr-defined]

    def watch(self, node: ast.expr) -> None:
        """Have launches see when an outside chain comes to mean something else."""
        self._capture(node)

    def truth(self, test: ast.expr) -> bool | None:
        """Return what a condition of constants from outside is, ``None`` if it may be either.

        Numba drops the branches that such conditions close before it infers types.
        """
        match test:
            case ast.UnaryOp(op=ast.Not()):
                known = self.truth(test.operand)
                return None if known is None else not known
            case ast.BoolOp():
                ends = isinstance(test.op, ast.Or)
                for each in test.values:
                    known = self.truth(each)
                    if known is None or known is ends:
                        return known
                return not ends
            case ast.Compare(
                left=left,
                ops=[ast.Is() | ast.IsNot() | ast.Eq() | ast.NotEq() as op],
                comparators=[ast.Constant(value=None)],
            ) if self._is_outside(left) and callable(self._look(left)):
                self.watch(left)
                return isinstance(op, ast.IsNot | ast.NotEq)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                if not (self._is_plain_constant(left) and self._is_plain_constant(right)):
                    return None
                one, two = (
                    self.evaluate(each, "The condition", "Compare numbers")
                    for each in (left, right)
                )
                if isinstance(op, ast.Is | ast.IsNot):
                    return (one is two) is isinstance(op, ast.Is) if two is None else None
                is_text = isinstance(one, str), isinstance(two, str)
                if is_text[0] != is_text[1] or None in (one, two) or type(op) not in COMPARISONS:
                    return None
                return bool(COMPARISONS[type(op)](one, two))
        if not self._is_plain_constant(test):
            return None
        return bool(self.evaluate(test, "The condition", "Give a number"))

    def identity(self, node: ast.Compare) -> bool | None:
        """Return what ``is`` says of two enum members from outside, ``None`` of other things."""
        match node:
            case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot() as op], comparators=[right]):
                if not (self._is_member(left) and self._is_member(right)):
                    return None
                self.watch(left)
                self.watch(right)
                return (self._look(left) is self._look(right)) is isinstance(op, ast.Is)
        return None

    def _is_member(self, node: ast.expr) -> bool:
        return self._is_outside(node) and isinstance(self._look(node), enum.Enum)

    def _is_plain_constant(self, node: ast.expr) -> bool:
        """Return whether a node is a literal, or a constant from outside, of a type of Python."""
        if isinstance(node, ast.Constant):
            return type(node.value) in _PLAIN
        return self._is_outside(node) and type(self._look(node)) in _PLAIN

    def argument(self, intrinsic: Intrinsic, parameter: str, node: ast.expr) -> Any:
        """Evaluate the static argument of an intrinsic, and check it."""
        what, remedy = f"kd.{intrinsic.name}: {parameter}", _remedy(intrinsic, parameter)
        value = self.evaluate(node, what, remedy)
        if parameter == "ndim":
            return self._ndim(intrinsic, node, value)
        if parameter == "shape":
            return self._shape(intrinsic, node, value)
        if parameter == "axis":
            return value
        if parameter == "alignment":
            return self._alignment(intrinsic, node, value)
        if parameter in ("promote", "stages"):
            return self._count(intrinsic, parameter, node, value)
        if parameter in intrinsic.choices:
            return self._word(intrinsic, parameter, node, value)
        if parameter == "numbers":
            return self._numbers(intrinsic, node, value)
        if parameter == "lut":
            return self._table(intrinsic, node, value)
        if parameter in ("text", "pure"):
            return value
        if parameter == "out":
            each = value if isinstance(value, tuple) else () if value is None else (value,)
            return tuple(self._dtype(intrinsic, node, dtype) for dtype in each)
        return self._dtype(intrinsic, node, value)

    def _dtype(self, intrinsic: Intrinsic, node: ast.expr, value: Any) -> str:
        name = dtype_name(value)
        takes_vectors = intrinsic.typing in (Typing.ARRAY, Typing.VIEW)
        if name is None or (ELEMENT_TYPES[name].is_vector and not takes_vectors):
            self._reporter.fail(
                node,
                f"kd.{intrinsic.name}: {safe_repr(value)} is not a dtype that it supports",
                f"Use one of {', '.join(DTYPE_NAMES)}, as np.float32 or kd.float32",
                value=value,
            )
        return name

    def _table(self, intrinsic: Intrinsic, node: ast.expr, value: Any) -> int:
        if not _is_integer(value) or not 0 <= value <= 255:
            self._reporter.fail(
                node,
                f"kd.{intrinsic.name}: lut is {safe_repr(value)}",
                "Combine 0xF0 for a, 0xCC for b and 0xAA for c: 0xF0 & 0xCC ^ 0xAA is a & b ^ c",
                limit="It must be the function's table of eight bits, 0 to 255",
                value=value,
            )
        return int(value)

    def _ndim(self, intrinsic: Intrinsic, node: ast.expr, value: Any) -> int:
        if not _is_integer(value) or not 1 <= value <= 3:
            self._reporter.fail(
                node,
                f"kd.{intrinsic.name}: ndim is {safe_repr(value)}",
                f"Write kd.{intrinsic.name}(1), (2) or (3)",
                limit="A grid has 1, 2 or 3 dimensions",
                value=value,
            )
        return int(value)

    def _count(
        self, intrinsic: Intrinsic, parameter: str, node: ast.expr, value: Any
    ) -> int | None:
        if value is not None and not (_is_integer(value) and value > 0):
            self._reporter.fail(
                node,
                f"kd.{intrinsic.name}: {parameter} is {safe_repr(value)}",
                "Give a positive integer or None",
                value=value,
            )
        return None if value is None else int(value)

    def _alignment(self, intrinsic: Intrinsic, node: ast.expr, value: Any) -> int | None:
        is_power = _is_integer(value) and value > 0 and value & (value - 1) == 0
        if value is not None and not _is_integer(value):
            self._reporter.fail(
                node,
                f"kd.{intrinsic.name}: alignment must be a constant integer, and is "
                f"{safe_repr(value)}",
                "Give a power of two, in bytes",
                limit=NOT_KNOWN,
                value=value,
            )
        if value is not None and not is_power:
            self._reporter.fail(
                node,
                f"kd.{intrinsic.name}: Alignment must be a power of two, and is {value}",
                "Give a power of two, in bytes",
                value=value,
                error=ArgumentValueError,
            )
        return None if value is None else int(value)

    def _word(self, intrinsic: Intrinsic, parameter: str, node: ast.expr, value: Any) -> str:
        words = intrinsic.choices[parameter]
        if not isinstance(value, str) or value not in words:
            self._reporter.fail(
                node,
                f"kd.{intrinsic.name}: {parameter} is {safe_repr(value)}",
                f"Write one of {', '.join(map(repr, words))}",
                value=value,
            )
        return value

    def _numbers(self, intrinsic: Intrinsic, node: ast.expr, value: Any) -> str:
        from kerneldsl.language.packed_numbers import PACKED_NUMBERS, PackedNumbers

        if not isinstance(value, PackedNumbers):
            self._reporter.fail(
                node,
                f"kd.{intrinsic.name}: {safe_repr(value)} is not a kind of packed numbers",
                f"Write {' or '.join(f'kd.{name}' for name in PACKED_NUMBERS)}",
                value=value,
            )
        return value.name

    def _shape(self, intrinsic: Intrinsic, node: ast.expr, value: Any) -> tuple[int, ...]:
        shape = value if isinstance(value, tuple) else (value,)
        if not all(_is_integer(n) for n in shape):
            self._reporter.fail(
                node,
                f"kd.{intrinsic.name}: shape is {safe_repr(value)}",
                "Give an integer, or a tuple of 1 to 3 integers",
                value=value,
            )
        if not 1 <= len(shape) <= 3:
            self._reporter.fail(
                node,
                f"kd.{intrinsic.name}: the shape has {format_count(len(shape), 'dimension')}",
                "Use fewer dimensions and compute the index",
                limit="1, 2 or 3 are possible",
                value=value,
            )
        shape = tuple(int(n) for n in shape)
        is_dynamic = shape == (0,) and intrinsic.name == "shared.array"
        if min(shape) < 1 and not is_dynamic:
            self._reporter.fail(
                node,
                f"kd.{intrinsic.name}: shape {shape} has an extent below 1",
                "Give positive extents"
                + (
                    "; shape 0 alone is dynamic shared memory"
                    if intrinsic.name == "shared.array"
                    else ""
                ),
                value=value,
            )
        return shape

    def _is_unknown(self, node: ast.expr) -> bool:
        """Return whether a name has no constant value, so that its attributes have none."""
        if not isinstance(node, ast.Name) or self._is_outside(node):
            return False
        return node.id not in self._local_constants or node.id in self._open

    def evaluate(
        self,
        node: ast.expr,
        what: str,
        remedy: str,
        limit: str = NOT_KNOWN,
    ) -> Any:
        """Return the value of a constant expression; a message calls it `what`."""

        def evaluate(x: ast.expr) -> Any:
            return self.evaluate(x, what, remedy, limit)

        if isinstance(node, ast.Constant):
            return node.value
        if self._is_outside(node):
            value = self._capture(node)
            is_of_kernels = isinstance(value, Intrinsic | IntrinsicGroup)
            if is_of_kernels and dtype_name(value) is None:  # blockDim.x, say; vectors are dtypes
                self._refuse_varying(node, what, remedy, limit)
            return value
        if isinstance(node, ast.Tuple):
            return tuple(evaluate(x) for x in node.elts)
        name = node.id if isinstance(node, ast.Name) else None
        if name in self._local_constants and name not in self._open:
            self._open.add(name)
            try:
                return evaluate(self._local_constants[name])
            finally:
                self._open.discard(name)
        try:
            if isinstance(node, ast.BinOp) and type(node.op) in BINARY_OPERATORS:
                return BINARY_OPERATORS[type(node.op)](evaluate(node.left), evaluate(node.right))
            if isinstance(node, ast.UnaryOp):
                return UNARY_OPERATORS[type(node.op)](evaluate(node.operand))
            if isinstance(node, ast.Compare) and len(node.ops) == 1:
                compare = COMPARISONS.get(type(node.ops[0]))
                if compare is not None:
                    return compare(evaluate(node.left), evaluate(node.comparators[0]))
            if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Slice):
                return evaluate(node.value)[evaluate(node.slice)]
            if isinstance(node, ast.Attribute) and not self._is_unknown(node.value):
                return getattr(evaluate(node.value), node.attr)
            if isinstance(node, ast.IfExp):
                return evaluate(node.body if evaluate(node.test) else node.orelse)
            if isinstance(node, ast.Call) and not node.keywords and self._is_outside(node.func):
                function = self._capture(node.func)
                is_dtype = isinstance(function, type) and issubclass(function, np.generic)
                if function in _FUNCTIONS or is_dtype:
                    return function(*(evaluate(x) for x in node.args))
        except (TypeError, ValueError, ArithmeticError, IndexError, AttributeError) as error:
            self._reporter.fail(
                node,
                f"{what} cannot be computed: {error}",
                f"Check the constants in {ast.unparse(node)}",
                value=error,
            )
        self._refuse_varying(node, what, remedy, limit)

    def _refuse_varying(self, node: ast.expr, what: str, remedy: str, limit: str) -> NoReturn:
        text = f"{what} is {ast.unparse(node)}, which is not a constant"
        self._reporter.fail(node, text, remedy, limit=limit)


def _remedy(intrinsic: Intrinsic, parameter: str) -> str:
    if parameter == "dtype":
        return "Name the dtype, as np.float32, or capture it from a global or a closure"
    constants = "Use constants, globals, closure values, or a keyword-only parameter of the kernel"
    if intrinsic.name == "shared.array":
        return (
            f"{constants}; for a size that the launch decides, use kd.shared.array(0, dtype) and "
            "kernel[grid, block, stream, shared_bytes]"
        )
    return constants


def _is_integer(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def dtype_name(value: Any) -> str | None:
    """Name of the dtype that an object stands for, or ``None``.

    - `value`: a NumPy scalar type, a ``numpy.dtype``, a Numba type, a name, or Python's ``int``,
      ``float``, ``bool`` or ``complex``.

    Examples
    --------
    >>> import numpy as np
    >>> dtype_name(np.float32), dtype_name(int), dtype_name("uint8"), dtype_name(3)
    ('float32', 'int64', 'uint8', None)
    """
    if isinstance(value, str) and value in ELEMENT_TYPES:
        return value
    if is_of_numba(value, "Record"):
        return element_name(value.dtype)
    if is_numba_type(value):
        name = str(value)
        name = _NUMBA_ALIASES.get(name, name)
        if name not in ELEMENT_TYPES:
            from kerneldsl.language.structures import structure_name  # few programs have such types

            return structure_name(value)
    elif isinstance(value, type | np.dtype | str):
        try:
            return element_name(np.dtype(value))
        except TypeError:
            return None
    else:
        name = str(getattr(value, "name", ""))
    return name if name in ELEMENT_TYPES else None
