"""Numba's errors in the words of this project, with the kernel's line first."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kerneldsl.analysis.expressions import text_of
from kerneldsl.errors import (
    CompileError,
    KernelError,
    KernelTypingError,
    SourceLocation,
    UnsupportedConstructError,
)
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import Kind
from kerneldsl.language.reserved import RESERVED_PREFIX
from kerneldsl.lowering.numba_internals.moved import moved_name

__all__ = ["translate"]

_Matches = Callable[[ast.AST], bool]


@dataclass(frozen=True, slots=True)
class _Finding:
    """Cause of a compilation error, in plain words, and the node it is about.

    Where nothing matches, it is the one expression that `may_match`; of several it is none.
    """

    what: str
    remedy: str
    matches: _Matches
    may_match: _Matches | None = None


@dataclass(frozen=True, slots=True)
class _Rule:
    """A pattern of Numba's text, and what it means; *tell* gets the pattern's groups."""

    pattern: re.Pattern[str]
    tell: Callable[..., _Finding]


def translate(error: BaseException, unit: FunctionUnit, kinds: tuple[Kind, ...]) -> KernelError:
    """Turn an error of Numba or LLVM into ours.

    The result, of which the error becomes the cause, is a `KernelTypingError` where types do not
    fit, an `UnsupportedConstructError` where a construct is not supported, else a `CompileError`.
    An error that is one of ours already is returned as it is; one over a name that a release has
    moved says which.
    """
    own = _own_error(error) or moved_name(error)
    if own is not None:
        return own
    text = str(getattr(error, "msg", None) or error)
    finding = next(
        (rule.tell(*match.groups()) for rule in _RULES if (match := rule.pattern.search(text))),
        None,
    )
    where, expression = _locate(error, unit, finding)
    arguments = ", ".join(
        f"{name}: {kind}" for name, kind in zip(unit.parameters, kinds, strict=False)
    )
    what = finding.what if finding is not None else _first_line(text)
    if expression is not None and finding is not None:
        what = f"{what}, in `{expression}`"
    kind = _class_of(error)
    result = kind(
        f"{unit.name}({arguments}) cannot be compiled: {what}",
        where=where,
        value=error,
        remedy=finding.remedy
        if finding is not None
        else "error.details has the compiler's own text",
    )
    result.__cause__ = error
    return result


def _own_error(error: BaseException | None) -> KernelError | None:
    """Return an error of ours that Numba passed on, alone or wrapped in one of its own."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, KernelError):
            return error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None


def _class_of(error: BaseException) -> type[KernelError]:
    names = {base.__name__ for base in type(error).__mro__}
    if names & {"UnsupportedError", "UnsupportedBytecodeError", "UnsupportedParforsError"}:
        return UnsupportedConstructError
    if names & {"TypingError", "NotDefinedError", "NumbaTypeError", "IRError"}:
        return KernelTypingError
    return CompileError


def _locate(
    error: BaseException, unit: FunctionUnit, finding: _Finding | None
) -> tuple[SourceLocation, str | None]:
    """Return the place that Numba names, or else the one that the finding is about."""
    place = getattr(error, "loc", None)
    line = getattr(place, "line", None)
    filename = getattr(place, "filename", None)
    for reached in unit.reachable():
        tree = reached.tree
        is_inside = (
            line is not None
            and filename == reached.filename
            and tree.lineno <= line <= (tree.end_lineno or tree.lineno)
        )
        # What Numba cannot place it places at the function's head.
        is_placed = is_inside and line != tree.lineno
        if is_inside or (line is None and finding is not None):
            node = _node_of(tree, line if is_placed else None, finding)
            if node is not None:
                where = reached.locate(node)
                return where, text_of(node, where.line)
        if is_inside and line is not None:
            return SourceLocation(reached.filename, line, function=reached.qualname), None
    return unit.locate(unit.tree), None


def _node_of(tree: ast.FunctionDef, line: int | None, finding: _Finding | None) -> ast.expr | None:
    if finding is None:
        return None
    nodes = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.expr)
        and (line is None or node.lineno <= line <= (node.end_lineno or node.lineno))
    ]
    found = next(filter(finding.matches, nodes), None)
    if found is not None or finding.may_match is None:
        return found
    possible = list(filter(finding.may_match, nodes))
    return possible[0] if len({ast.dump(node) for node in possible}) == 1 else None


def _first_line(text: str) -> str:
    """Return the first line that says something of its own."""
    return next(_telling_lines(text), "the compiler gave no reason")


def _telling_lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        stripped = re.sub(r"\x1b\[[0-9;]*m", "", line).strip()
        if stripped and not stripped.startswith(("Failed in ", "File ", "During: ", ">>>")):
            yield stripped.rstrip(".")


def _plain(numba_text: str) -> str:
    """Return types as Numba prints them, in the notation of signatures."""
    text = re.sub(r"Literal\[(\w+)\]\((.*?)\)", r"\2", numba_text)
    text = re.sub(r"\b(?:Uni)?Tuple\(", "tuple(", text)

    def array(match: re.Match[str]) -> str:
        ndim, layout = int(match[2]), match[3]
        axes = [":"] * ndim
        if ndim and layout in "CF":
            axes[-1 if layout == "C" else 0] = "::1"
        return f"{match[1]}[{', '.join(axes)}]"

    return re.sub(r"(?:readonly )?array\((\w+), (\d)d, (\w)\)", array, text)


def _last_name(qualified: str) -> str:
    """Return ``sqrt`` for ``<ufunc 'sqrt'>`` or ``<built-in function sqrt>``."""
    quoted = re.search(r"'(\w+)'", qualified)
    if quoted:
        return quoted[1]
    words = re.findall(r"\w+", re.sub(r" at 0x[0-9a-f]+", "", qualified))
    return words[-1] if words else qualified


def _is_attribute(name: str) -> _Matches:
    return lambda node: isinstance(node, ast.Attribute) and node.attr == name


def _is_name(name: str) -> _Matches:
    return lambda node: isinstance(node, ast.Name) and node.id == name


def _is_call_of(name: str) -> _Matches:
    def matches(node: ast.AST) -> bool:
        if not isinstance(node, ast.Call):
            return False
        function = node.func
        called = function.attr if isinstance(function, ast.Attribute) else ""
        return name in (called, getattr(function, "id", None))

    return matches


def _is_subscript(node: ast.AST) -> bool:
    return isinstance(node, ast.Subscript)


def _is_read_element(node: ast.AST) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)


def _has_indices(count: int) -> _Matches:
    """Return a test for subscripts of so many indices."""

    def matches(node: ast.AST) -> bool:
        if not isinstance(node, ast.Subscript):
            return False
        return (len(node.slice.elts) if isinstance(node.slice, ast.Tuple) else 1) == count

    return matches


def _has_float_index(node: ast.AST) -> bool:
    """Return whether an expression is a subscript whose index certainly is a float."""
    return isinstance(node, ast.Subscript) and any(
        (isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Div))
        or (isinstance(inner, ast.Constant) and isinstance(inner.value, float))
        for inner in ast.walk(node.slice)
    )


def _is_operation(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp | ast.UnaryOp | ast.Compare)


def _needs_memory(node: ast.AST) -> bool:
    """Return whether an expression makes or moves a whole array."""
    return isinstance(node, ast.Subscript) and any(
        isinstance(inner, ast.Slice) for inner in ast.walk(node.slice)
    )


def _explain_intrinsic(name: str, text: str) -> _Finding:
    """Return what a typing rule of ours says of an argument."""
    start = f"{RESERVED_PREFIX}{name.replace('.', '_')}_"

    def is_call(node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and getattr(node.func, "id", "").startswith(start)

    return _Finding(
        f"kd.{name}: {text.rstrip('.')}", "Convert the argument to a type that it takes", is_call
    )


def _explain_memory() -> _Finding:
    return _Finding(
        "an expression over whole arrays needs memory for its result, which a kernel cannot "
        "allocate",
        "Write a loop over the elements, each thread over its own",
        _needs_memory,
        lambda node: isinstance(node, ast.BinOp | ast.UnaryOp),
    )


def _explain_attribute(name: str, owner: str) -> _Finding:
    what = f"a value of type {_plain(owner)} has no attribute {name!r}"
    return _Finding(what, "Check the spelling and the argument's type", _is_attribute(name))


def _explain_module_attribute(name: str, owner: str) -> _Finding:
    return _Finding(
        f"{owner}.{name} is not available in a kernel",
        "Write it out with the operations that there are",
        _is_attribute(name),
    )


def _explain_undefined(name: str) -> _Finding:
    return _Finding(
        f"the variable {name} is not defined here", f"Assign {name} first", _is_name(name)
    )


def _explain_index_type(index: str) -> _Finding:
    return _Finding(
        f"an array is indexed by a value of type {_plain(index)}",
        "Index by an integer: // divides integers, int(…) makes one of a float",
        _has_float_index,
        _is_subscript,
    )


def _explain_index_count(array: str, count: str) -> _Finding:
    return _Finding(
        f"an array of type {_plain(array)} is indexed with {count} indices",
        "Use one index for each axis, or pass an array of that rank",
        _has_indices(int(count)),
        _is_subscript,
    )


def _explain_unify(one: str, other: str, name: str) -> _Finding:
    variable = name.partition(".")[0].lstrip("$")
    one, other = (re.sub(r"Literal\[(\w+)\]\(.*?\)", r"\1", t) for t in (one, other))
    if name.startswith(("$", "phi")) or re.fullmatch(r"phi\d+(\.\d+)?", variable):
        return _Finding(
            f"a conditional expression is {_plain(one)} on one path and {_plain(other)} on another",
            "Give it values of one type, or write if and else",
            lambda node: isinstance(node, ast.IfExp | ast.BoolOp),
        )
    return _Finding(
        f"the variable {variable} is {_plain(one)} on one path and {_plain(other)} on another",
        f"Give {variable} values of one type, or use two variables",
        _is_name(variable),
    )


def _explain_return(types: str) -> _Finding:
    return _Finding(
        f"a device function returns values of different types, {_plain(types)}",
        "Return one type on every path",
        lambda node: False,
    )


def _explain_binding(signature: str) -> _Finding:
    return _Finding(
        f"the arguments of a call do not match the parameters {signature}",
        "Give each parameter one argument",
        lambda node: isinstance(node, ast.Call),
    )


_OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "and_": "&", "or_": "|", "xor": "^", "lshift": "<<", "rshift": ">>", "lt": "<", "le": "<=",
    "gt": ">", "ge": ">=", "eq": "==", "ne": "!=", "neg": "-", "invert": "~", "iadd": "+=",
    "isub": "-=", "imul": "*=", "itruediv": "/=", "ifloordiv": "//=",
}  # fmt: skip


_MAKERS = frozenset(
    f"{name}{like}" for name in ("zeros", "ones", "empty", "full") for like in ("", "_like")
) | {"arange", "array", "copy", "linspace"}
#: Numba's names of methods of arrays.
_REDUCTIONS = {"npy_max": "max", "npy_min": "min"}


def _explain_no_implementation(function: str, arguments: str) -> _Finding:
    name, types = _last_name(function), _plain(arguments)
    if name in ("getitem", "static_getitem"):
        return _Finding(
            f"unsupported index type in an expression: {types} (value, index)",
            "Index arrays by integers, and tuples by constants",
            _is_subscript,
        )
    if name == "setitem" and arguments.lstrip("(").startswith("readonly "):
        return _Finding(
            "cannot assign to an element of a captured array, which is a constant",
            "Pass the array as an argument",
            _is_subscript,
        )
    if name == "setitem" and arguments.endswith("Unknown"):
        return _Finding(
            "a value without a type is stored: a variable in it is used before it is assigned",
            "Assign the variable first, on every path",
            lambda node: False,
        )
    stored = re.fullmatch(r".*, (array\(\w+, \dd, \w\))\)?", arguments)
    if name == "setitem" and stored is not None:
        return _Finding(
            f"an array, {_plain(stored[1])}, is stored in one element",
            "Use one index for each axis of the array that is read, or loop over its elements",
            lambda node: False,
            _is_read_element,
        )
    if name == "setitem":
        return _Finding(
            f"cannot assign to an element: {types} (array, index, value)",
            "Store a value that converts to the array's element type, at an integer index",
            _is_subscript,
        )
    if name in _MAKERS:
        return _Finding(
            f"np.{name} allocates memory, which a kernel cannot",
            "Write kd.local.array(shape, dtype), whose shape is a constant, and fill it in a loop; "
            "or make the array before the launch, and pass it",
            _is_call_of(name),
        )
    if name in _REDUCTIONS:
        called = _REDUCTIONS[name]
        return _Finding(
            f"arrays have no {called}() in a kernel",
            "Write a loop over the elements",
            _is_attribute(called),
        )
    if name in _OPERATORS:
        return _Finding(
            f"the operator {_OPERATORS[name]} does not take {types}",
            "Convert the operands, or work element by element",
            _is_operation,
        )
    return _Finding(
        f"{name} cannot be called with ({types})",
        "Write a loop over the elements"
        if "array(" in arguments
        else f"Call {name} with scalars that it takes, or write it out",
        _is_call_of(name),
    )


_RULES: tuple[_Rule, ...] = tuple(
    _Rule(re.compile(pattern, re.DOTALL), tell)
    for pattern, tell in (
        (r"TypingError: kerneldsl\.([\w.]+): ([^\n]*)", _explain_intrinsic),
        (r"NRT required but not enabled|_ol_array_allocate|array_allocate", _explain_memory),
        (
            r"Unknown attribute '(\w+)' of type Module\(<module '([\w.]+)'",
            _explain_module_attribute,
        ),
        (r"Unknown attribute '(\w+)' of type (.+?)\n", _explain_attribute),
        (r"NameError: name '(\w+)' is not defined", _explain_undefined),
        (r"[Vv]ariable '(\w+)(?:\.\d+)?' (?:is not defined|referenced before)", _explain_undefined),
        (r"Unsupported array index type (.+?) in ", _explain_index_type),
        (r"cannot index (array\(.+?\)) with (\d+) indices", _explain_index_count),
        (r"Cannot unify (.+?) and (.+?) for '([^']+)'", _explain_unify),
        (r"Can't unify return type from the following types: (.+?)\n", _explain_return),
        (r"Cannot bind '.+?' to signature '(.+?)'", _explain_binding),
        (
            r"No implementation of function (?:Function|type)\((.+?)\) found for signature:"
            r".*?>>> [\w.<>\-]+\((.*?)\)\s*\n",
            _explain_no_implementation,
        ),
    )
)
