"""Numba's errors in the words of this project, with the kernel's line first."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
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
from kerneldsl.language.kinds import ArrayKind, Kind
from kerneldsl.language.reserved import RESERVED_PREFIX
from kerneldsl.lowering.mixed_floats import find_mixture
from kerneldsl.lowering.node_tests import (
    Matches,
    conditions,
    has_float_index,
    has_indices,
    is_attribute,
    is_call_of,
    is_name,
    is_operation,
    is_read_element,
    is_stored_element,
    is_subscript,
    is_unpacked,
    needs_memory,
)
from kerneldsl.lowering.numba_internals.moved import moved_name
from kerneldsl.lowering.numba_text import arguments_of, first_line, last_name, plain

__all__ = ["translate"]


@dataclass(frozen=True, slots=True)
class _Finding:
    """Cause of a compilation error, in plain words, and the node it is about.

    Where nothing matches, it is the one expression that `may_match`; of several it is none.
    """

    what: str
    remedy: str
    matches: Matches
    may_match: Matches | None = None


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
    if finding is None and _NO_COMMON_TYPE.search(text):
        finding = _explain_mixture(unit, kinds)
    condition = _ARRAY_AS_CONDITION.search(text)
    if condition is not None:
        finding = _explain_condition(condition[1], unit, kinds)
    where, expression = _locate(error, unit, finding)
    arguments = ", ".join(
        f"{name}: {kind}" for name, kind in zip(unit.parameters, kinds, strict=False)
    )
    what = finding.what if finding is not None else first_line(text)
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
    if isinstance(error, TypeError):  # NumPy's, of two types that nothing holds
        return KernelTypingError
    names = {base.__name__ for base in type(error).__mro__}
    if names & {"UnsupportedError", "UnsupportedBytecodeError", "UnsupportedParforsError"}:
        return UnsupportedConstructError
    if names & {"TypingError", "NotDefinedError", "NumbaTypeError", "IRError"}:
        return KernelTypingError
    return CompileError


def _locate(
    error: BaseException, unit: FunctionUnit, finding: _Finding | None
) -> tuple[SourceLocation, str | None]:
    """Return the innermost place that Numba names, or else the one that the finding is about."""
    text = str(getattr(error, "msg", None) or error)
    for match in _TYPED_AT.finditer(text):
        filename, line = match[1], int(match[2])
        if any(_holds(reached, filename, line) for reached in unit.reachable()):
            return _locate_line(unit, filename, line, finding)
    place = getattr(error, "loc", None)
    return _locate_line(
        unit, getattr(place, "filename", None), getattr(place, "line", None), finding
    )


#: Numba says from the innermost function to the outermost what it was doing.
_TYPED_AT = re.compile(r"^During: typing of .* at (.+) \((\d+)\)$", re.MULTILINE)


def _holds(unit: FunctionUnit, filename: str | None, line: int | None) -> bool:
    tree = unit.tree
    last = tree.end_lineno or tree.lineno
    return line is not None and filename == unit.filename and tree.lineno <= line <= last


def _locate_line(
    unit: FunctionUnit, filename: str | None, line: int | None, finding: _Finding | None
) -> tuple[SourceLocation, str | None]:
    if all(filename != reached.filename for reached in unit.reachable()):
        line = None  # a place in Numba itself
    for reached in unit.reachable():
        tree = reached.tree
        is_inside = _holds(reached, filename, line)
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
        "Assign it to a row, o[i] = … or t[:] = … of a kd.local.array, or write a loop over the "
        "elements",
        needs_memory,
        lambda node: isinstance(node, ast.BinOp | ast.UnaryOp),
    )


def _explain_attribute(name: str, owner: str) -> _Finding:
    what = f"a value of type {plain(owner)} has no attribute {name!r}"
    return _Finding(what, "Check the spelling and the argument's type", is_attribute(name))


def _explain_module_attribute(name: str, owner: str) -> _Finding:
    return _Finding(
        f"{owner}.{name} is not available in a kernel",
        "Write it with operations on single elements, or do it outside the kernel",
        is_attribute(name),
    )


def _explain_undefined(name: str) -> _Finding:
    return _Finding(
        f"the variable {name} is not defined here", f"Assign {name} first", is_name(name)
    )


def _explain_index_type(index: str) -> _Finding:
    return _Finding(
        f"an array is indexed by a value of type {plain(index)}",
        "Index by an integer: // divides integers, int(…) makes one of a float",
        has_float_index,
        is_subscript,
    )


def _explain_index_count(array: str, count: str) -> _Finding:
    return _Finding(
        f"an array of type {plain(array)} is indexed with {count} indices",
        "Use one index for each axis, or pass an array of that rank",
        has_indices(int(count)),
        is_subscript,
    )


def _explain_unify(one: str, other: str, name: str) -> _Finding:
    variable = name.partition(".")[0].lstrip("$")
    if name.startswith(("$", "phi")) or re.fullmatch(r"phi\d+(\.\d+)?", variable):
        first, second = sorted((plain(one), plain(other)))  # versions of Python differ in order
        return _Finding(
            f"a conditional expression is {first} on one path and {second} on another",
            "Give it values of one type, or write if and else",
            lambda node: isinstance(node, ast.IfExp | ast.BoolOp),
        )
    return _Finding(
        f"the variable {variable} is {plain(one)} on one path and {plain(other)} on another",
        f"Give {variable} values of one type, or use two variables",
        is_name(variable),
    )


def _explain_mixture(unit: FunctionUnit, kinds: tuple[Kind, ...]) -> _Finding:
    mixture = find_mixture(unit, kinds)
    what = "a value is a float of 16 bits on one path and an integer on another"
    if mixture is not None:
        of = (
            f"variable {mixture.node.id}"
            if isinstance(mixture.node, ast.Name)
            else "conditional expression"
        )
        what = f"the {of} is {mixture.narrow} on one path and {mixture.other} on another"
    return _Finding(
        f"{what}, and no type holds both",
        "Convert each to one type, as in np.float32(value)",
        lambda node: mixture is not None and node is mixture.node,
    )


def _explain_condition(array: str, unit: FunctionUnit, kinds: tuple[Kind, ...]) -> _Finding:
    """Return the finding of an array that stands where a condition does, for it has no truth."""
    arrays = {
        name
        for name, kind in zip(unit.parameters, kinds, strict=False)
        if isinstance(kind, ArrayKind)
    }
    asked = {
        id(node): node
        for reached in unit.reachable()
        for node in conditions(reached.tree)
        if isinstance(node, ast.Name)
    }
    return _Finding(
        f"an array, {plain(array)}, is used as a condition",
        "Write the condition of an element, as in x[i] != 0, or of the size, as in x.size > 0",
        lambda node: id(node) in asked and asked[id(node)].id in arrays,
        lambda node: id(node) in asked,
    )


#: What Python's names of types of objects stand for.
_PYTHONS_OWN = {"type": "a class", "builtin_function_or_method": "a function of Python's"}


def _explain_unknown_object(kind: str) -> _Finding:
    name = last_name(kind)
    what = _PYTHONS_OWN.get(name, f"an object of type {name}")
    return _Finding(
        f"{what} is used that has no meaning in a kernel",
        "Use numbers, arrays and tuples of them; do the rest outside the kernel",
        lambda node: False,
    )


def _explain_return(types: str) -> _Finding:
    return _Finding(
        f"a device function returns values of different types, {plain(types)}",
        "Return one type on every path",
        lambda node: False,
    )


def _explain_binding(signature: str) -> _Finding:
    return _Finding(
        f"the arguments of a call do not match the parameters {signature}",
        "Give each parameter one argument",
        lambda node: isinstance(node, ast.Call),
    )


def _explain_loop(looped: str) -> _Finding:
    found = plain(looped)
    if found.startswith("tuple("):
        return _Finding(
            f"a for runs over values of several types, {found}",
            "Give them one type, as in (1.0, 2.5), or loop over range(n) and choose by if",
            lambda node: False,
            lambda node: isinstance(node, ast.Tuple),
        )
    return _Finding(
        f"a for runs over {found}",
        "Loop over range(n), a tuple or an array",
        lambda node: False,
    )


def _explain_unpacking(value: str) -> _Finding:
    return _Finding(
        f"one value, {plain(value)}, is unpacked into several names",
        "Assign it to one name; kd.grid(1) gives one index, kd.grid(2) two and kd.grid(3) three",
        is_unpacked,
    )


def _explain_unpacked_count(wanted: str, found: str) -> _Finding:
    return _Finding(
        f"{found} values are unpacked into {wanted} names",
        "Give each value a name; kd.grid(1) gives one index, kd.grid(2) two and kd.grid(3) three",
        is_unpacked,
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
    name, types = last_name(function), ", ".join(arguments_of(arguments))
    if name in ("getitem", "static_getitem"):
        return _Finding(
            f"unsupported index type in an expression: {types} (value, index)",
            "Index arrays by integers, and tuples by constants",
            is_subscript,
        )
    if name == "setitem" and arguments.lstrip("(").startswith("readonly "):
        return _Finding(
            "cannot assign to an element of a captured array, which is a constant",
            "Pass the array as an argument",
            is_subscript,
        )
    if name == "setitem" and arguments.endswith("Unknown"):
        return _Finding(
            "what is stored contains a variable that is not assigned yet",
            "Assign the variable first, on every path",
            lambda node: False,
        )
    stored = re.fullmatch(r".*, (array\(\w+, \dd, \w\))\)?", arguments)
    if name == "setitem" and stored is not None:
        return _Finding(
            f"an array, {plain(stored[1])}, is stored in one element",
            "Use one index for each axis of the array that is read, or loop over its elements",
            lambda node: False,
            is_read_element,
        )
    if name == "setitem":
        array, _, value = arguments_of(arguments)
        return _Finding(
            f"a value of type {value} is stored in an element of {array}",
            "Store a number: it is converted to the type of the elements",
            is_stored_element,
        )
    if name in _MAKERS:
        return _Finding(
            f"np.{name} allocates memory, which a kernel cannot",
            "Write kd.local.array(shape, dtype), whose shape is a constant, and fill it in a loop; "
            "or make the array before the launch, and pass it",
            is_call_of(name),
        )
    if name in _REDUCTIONS:
        called = _REDUCTIONS[name]
        return _Finding(
            f"arrays have no {called}() in a kernel",
            "Write a loop over the elements",
            is_attribute(called),
        )
    if name in _OPERATORS:
        operands = " and ".join(arguments_of(arguments))
        return _Finding(
            f"in a kernel, the operator {_OPERATORS[name]} does not take {operands}",
            "Work element by element"
            if "array(" in arguments
            else "Convert the operands to numbers that it takes",
            is_operation,
        )
    return _Finding(
        f"in a kernel, {name} cannot be called with ({types})",
        "Write a loop over the elements"
        if "array(" in arguments
        else f"Call {name} with scalars that it takes, or write it out",
        is_call_of(name),
    )


#: NumPy's text where no type holds two, and Numba's name of a type that NumPy has and it lacks.
_NO_COMMON_TYPE = re.compile(r"do not have a common DType|^\W*b?float16\W*$", re.MULTILINE)

_ARRAY_AS_CONDITION = re.compile(
    r"No implementation of function Function\(<class 'bool'>\) found for signature:"
    r".*?>>> bool\((?:readonly )?(array\(.+?\))\)\s*\n",
    re.DOTALL,
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
        (r"Invalid use of getiter with parameters \((.+?)\)\n", _explain_loop),
        (r"failed to unpack (.+?)(?:\n|$)", _explain_unpacking),
        (r"wrong tuple length for .*?expected (\d+), got (\d+)", _explain_unpacked_count),
        (r"Unsupported array index type (.+?) in ", _explain_index_type),
        (r"cannot index (array\(.+?\)) with (\d+) indices", _explain_index_count),
        (r"Cannot unify (.+?) and (.+?) for '([^']+)'", _explain_unify),
        (r"Cannot determine Numba type of <class '([^']+)'>", _explain_unknown_object),
        (r"Can't unify return type from the following types: (.+?)\n", _explain_return),
        (r"Cannot bind '.+?' to signature '(.+?)'", _explain_binding),
        (
            r"No implementation of function (?:Function|type)\((.+?)\) found for signature:"
            r".*?>>> [\w.<>\-]+\((.*?)\)\s*\n",
            _explain_no_implementation,
        ),
    )
)
