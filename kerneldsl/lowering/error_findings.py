"""Causes of compilation errors, read off Numba's text and told in plain words."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import ArrayKind, Kind, ScalarKind, TupleKind
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
from kerneldsl.lowering.numba_text import arguments_of, last_name, plain
from kerneldsl.transforms.tile_refusals import is_part_of_at
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["Finding", "find_cause"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Cause of a compilation error, in plain words, and the node it is about.

    Where nothing matches, it is the one expression that `may_match`; of several it is none.
    """

    what: str
    remedy: str
    matches: Matches
    may_match: Matches | None = None
    #: Whether types are to blame, though Numba may only find that out when it writes code.
    is_of_types: bool = False


@dataclass(frozen=True, slots=True)
class _Rule:
    """A pattern of Numba's text, and what it means; *tell* gets the pattern's groups."""

    pattern: re.Pattern[str]
    tell: Callable[..., Finding]


def find_cause(text: str, unit: FunctionUnit, kinds: tuple[Kind, ...]) -> Finding | None:
    """Return what the text of an error of Numba's means; ``None`` where no rule knows.

    `kinds` are those of the kernel's arguments.
    """
    condition = _ARRAY_AS_CONDITION.search(text)
    if condition is not None:
        return _explain_condition(condition[1], unit, kinds)
    indexed = _INDEXED.search(text)
    if indexed is not None and _NUMBER.fullmatch(number := arguments_of(indexed[1])[0]):
        return _explain_indexed_number(number, unit, kinds)
    loop = _LOOP.search(text)
    if loop is not None:
        return _explain_loop(loop[1], unit, kinds)
    for rule in _RULES:
        match = rule.pattern.search(text)
        if match is not None:
            return rule.tell(*match.groups())
    return _explain_mixture(unit, kinds) if _NO_COMMON_TYPE.search(text) else None


def _explain_intrinsic(name: str, text: str) -> Finding:
    """Return what a typing rule of ours says of an argument; a second sentence is the remedy."""
    start = f"{RESERVED_PREFIX}{name.replace('.', '_')}_"

    def is_call(node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and getattr(node.func, "id", "").startswith(start)

    what, _, remedy = text.rstrip(".").partition(". ")
    return Finding(
        f"kd.{name}: {what}", remedy or "Convert the argument to a type that it takes", is_call
    )


def _explain_declared(text: str) -> Finding:
    """Return what is said of an argument of a linked function."""
    remedy = "Give it what its signature declares: convert a number, or pass a contiguous array"
    return Finding(text.rstrip("."), remedy, lambda node: False, is_of_types=True)


def _explain_memory() -> Finding:
    return Finding(
        "an expression over whole arrays needs memory for its result, which a kernel cannot "
        "allocate",
        "Assign it to a row, o[i] = … or t[:] = … of a kd.local.array, or write a loop over the "
        "elements",
        needs_memory,
        lambda node: isinstance(node, ast.BinOp | ast.UnaryOp),
        is_of_types=True,
    )


def _explain_attribute(name: str, owner: str) -> Finding:
    what = f"a value of type {plain(owner)} has no attribute {name!r}"
    return Finding(what, "Check the spelling and the argument's type", is_attribute(name))


def _explain_module_attribute(name: str, owner: str) -> Finding:
    return Finding(
        f"{owner}.{name} is not available in a kernel",
        "Write it with operations on single elements, or do it outside the kernel",
        is_attribute(name),
    )


def _explain_undefined(name: str) -> Finding:
    return Finding(
        f"the variable {name} is not defined here", f"Assign {name} first", is_name(name)
    )


def _explain_index_type(index: str) -> Finding:
    return Finding(
        f"an array is indexed by a value of type {plain(index)}",
        "Index by an integer: // divides integers, int(…) makes one of a float",
        has_float_index,
        is_subscript,
    )


def _explain_index_count(array: str, count: str) -> Finding:
    if ", 0d," in array:
        return Finding(
            "an array without an axis is indexed by a number",
            "Read and write it as a[()], or pass it with an axis: a.reshape(1)",
            lambda node: False,  # other arrays of the kernel are indexed so, too
            has_indices(int(count)),
        )
    return Finding(
        f"an array of type {plain(array)} is indexed with {count} indices",
        "Use one index for each axis, or pass an array of that rank",
        has_indices(int(count)),
        is_subscript,
    )


def _explain_tuple_index() -> Finding:
    return Finding(
        "a tuple is indexed beyond its elements",
        "Use an index below its length",
        lambda node: False,  # which tuple it is only its type says
        lambda node: isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant),
    )


def _explain_unify(one: str, other: str, name: str) -> Finding:
    variable = name.partition(".")[0].lstrip("$")
    if name.startswith(("$", "phi")) or re.fullmatch(r"phi\d+(\.\d+)?", variable):
        first, second = sorted((plain(one), plain(other)))  # versions of Python differ in order
        return Finding(
            f"a conditional expression is {first} on one path and {second} on another",
            "Give it values of one type, or write if and else",
            lambda node: isinstance(node, ast.IfExp | ast.BoolOp),
        )
    return Finding(
        f"the variable {variable} is {plain(one)} on one path and {plain(other)} on another",
        f"Give {variable} values of one type, or use two variables",
        is_name(variable),
    )


def _explain_mixture(unit: FunctionUnit, kinds: tuple[Kind, ...]) -> Finding:
    mixture = find_mixture(unit, kinds)
    what = "a value is a float of 16 bits on one path and an integer on another"
    if mixture is not None:
        of = (
            f"variable {mixture.node.id}"
            if isinstance(mixture.node, ast.Name)
            else "conditional expression"
        )
        what = f"the {of} is {mixture.narrow} on one path and {mixture.other} on another"
    return Finding(
        f"{what}, and no type holds both",
        "Convert each to one type, as in np.float32(value)",
        lambda node: mixture is not None and node is mixture.node,
    )


def _explain_condition(array: str, unit: FunctionUnit, kinds: tuple[Kind, ...]) -> Finding:
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
    return Finding(
        f"an array, {plain(array)}, is used as a condition",
        "Write the condition of an element, as in x[i] != 0, or of the size, as in x.size > 0",
        lambda node: id(node) in asked and asked[id(node)].id in arrays,
        lambda node: id(node) in asked,
    )


def _explain_indexed_number(number: str, unit: FunctionUnit, kinds: tuple[Kind, ...]) -> Finding:
    """Return the finding of a number with an index, first of all one that is an argument."""
    numbers = {
        name
        for name, kind in zip(unit.parameters, kinds, strict=False)
        if isinstance(kind, ScalarKind)
    }

    def is_of_argument(node: ast.AST) -> bool:
        return (
            isinstance(node, ast.Subscript)
            and isinstance(node.ctx, ast.Load)
            and isinstance(node.value, ast.Name)
            and node.value.id in numbers
        )

    indexed = [
        node
        for reached in unit.reachable()
        for node in walk_here(reached.tree)
        if is_of_argument(node)
    ]
    if indexed and all(map(is_part_of_at, indexed)):
        return Finding(
            f"at is a number of type {number}, and the tile has more axes than one",
            "Give one index for each axis, as in (i, j)",
            is_of_argument,
        )
    return Finding(
        f"a number of type {number} is indexed like an array",
        "Pass an array, such as np.array([number]), or leave the index out",
        is_of_argument,
        is_read_element,
    )


#: What Python's names of types of objects stand for.
_PYTHONS_OWN = {"type": "a class", "builtin_function_or_method": "a function of Python's"}


def _explain_unknown_object(kind: str) -> Finding:
    name = last_name(kind)
    what = _PYTHONS_OWN.get(name, f"an object of type {name}")
    return Finding(
        f"{what} is used that has no meaning in a kernel",
        "Use numbers, arrays and tuples of them; do the rest outside the kernel",
        lambda node: False,
    )


def _explain_return(types: str) -> Finding:
    return Finding(
        f"a device function returns values of different types, {plain(types)}",
        "Return one type on every path",
        lambda node: False,
    )


def _explain_binding(signature: str) -> Finding:
    return Finding(
        f"the arguments of a call do not match the parameters {signature}",
        "Give each parameter one argument",
        lambda node: isinstance(node, ast.Call),
    )


def _explain_loop(looped: str, unit: FunctionUnit, kinds: tuple[Kind, ...]) -> Finding:
    found = plain(looped)
    loops = (n for each in unit.reachable() for n in walk_here(each.tree) if isinstance(n, ast.For))
    iterated = [loop.iter for loop in loops if not isinstance(loop.iter, ast.Call)]
    if found.startswith("tuple("):
        tuples = {
            name
            for name, kind in zip(unit.parameters, kinds, strict=False)
            if isinstance(kind, TupleKind) and len(set(kind.elements)) > 1
        }
        names = [each for each in iterated if isinstance(each, ast.Name)]
        arguments = [each for each in names if each.id in tuples]
        name = next((each.id for each in (*arguments, *names)), None)
        return Finding(
            f"a for runs over values of several types, {found}",
            "Give them one type, as in (1.0, 2.5), or loop over range(n) and choose by if"
            if name is None
            else f"Write the loop out, with constant indices: {name}[0], {name}[1]",
            lambda node: node in arguments,
            lambda node: node in iterated,
        )
    return Finding(
        f"a for runs over {found}",
        "Loop over range(n), a tuple or an array",
        lambda node: False,
        lambda node: node in iterated,
    )


def _explain_unpacking(value: str) -> Finding:
    return Finding(
        f"one value, {plain(value)}, is unpacked into several names",
        "Assign it to one name; kd.grid(1) gives one index, kd.grid(2) two and kd.grid(3) three",
        is_unpacked,
    )


def _explain_unpacked_count(wanted: str, found: str) -> Finding:
    return Finding(
        f"{found} values are unpacked into {wanted} names",
        "Give each value a name; kd.grid(1) gives one index, kd.grid(2) two and kd.grid(3) three",
        is_unpacked,
    )


_OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "and_": "&", "or_": "|", "xor": "^", "lshift": "<<", "rshift": ">>", "lt": "<", "le": "<=",
    "gt": ">", "ge": ">=", "eq": "==", "ne": "!=", "neg": "-", "invert": "~", "iadd": "+=",
    "isub": "-=", "imul": "*=", "itruediv": "/=", "ifloordiv": "//=", "imod": "%=", "ipow": "**=",
    "iand": "&=", "ior": "|=", "ixor": "^=", "ilshift": "<<=", "irshift": ">>=",
    "contains": "in",
}  # fmt: skip


#: The remedy for dates and durations.
_OF_TIMES = (
    "Bring both to one unit before the launch, array.astype('M8[s]') or array.astype('m8[s]'); "
    "durations are added, multiplied by integers and divided"
)
_MAKERS = frozenset(
    f"{name}{like}" for name in ("zeros", "ones", "empty", "full") for like in ("", "_like")
) | {"arange", "array", "copy", "linspace"}
#: Numba's names of methods of arrays.
_REDUCTIONS = {"npy_max": "max", "npy_min": "min"}


def _explain_no_implementation(function: str, arguments: str) -> Finding:
    name, types = last_name(function), ", ".join(arguments_of(arguments))
    if name in ("getitem", "static_getitem"):
        return Finding(
            f"unsupported index type in an expression: {types} (value, index)",
            "Index arrays by integers, and tuples by constants",
            is_read_element,
        )
    if name == "setitem" and arguments.lstrip("(").startswith("readonly "):
        is_field = "nestedarray(" in arguments
        owner = "an array in a record that is an argument" if is_field else "a captured array"
        passed = "an array of one record, array[:1]," if is_field else "the array"
        return Finding(
            f"cannot assign to an element of {owner}, which is a constant",
            f"Pass {passed} as an argument",
            is_subscript,
        )
    if name == "setitem" and arguments.endswith("Unknown"):
        return Finding(
            "what is stored contains a variable that is not assigned yet",
            "Assign the variable first, on every path",
            lambda node: False,
        )
    stored = re.fullmatch(r".*, (array\(\w+, \dd, \w\))\)?", arguments)
    if name == "setitem" and stored is not None:
        return Finding(
            f"an array, {plain(stored[1])}, is stored in one element",
            "Use one index for each axis of the array that is read, or loop over its elements",
            lambda node: False,
            is_read_element,
        )
    if name == "setitem":
        array, _, value = arguments_of(arguments)
        return Finding(
            f"a value of type {value} is stored in an element of {array}",
            _OF_TIMES
            if "time64[" in array or "delta64[" in array
            else "Store a number: it is converted to the type of the elements",
            is_stored_element,
        )
    if name in _MAKERS:
        return Finding(
            f"np.{name} allocates memory, which a kernel cannot",
            "Write kd.local.array(shape, dtype), whose shape is a constant, and fill it in a loop; "
            "or make the array before the launch, and pass it",
            is_call_of(name),
        )
    if name in _REDUCTIONS:
        called = _REDUCTIONS[name]
        return Finding(
            f"arrays have no {called}() in a kernel",
            "Write a loop over the elements",
            is_attribute(called),
        )
    if name == "pow" and len(arguments_of(arguments)) > 2:
        return Finding(
            "in a kernel, pow takes two arguments",
            "Write a loop of products and remainders for a power modulo a number",
            is_call_of(name),
        )
    if name in _OPERATORS:
        operands = " and ".join(arguments_of(arguments))
        return Finding(
            f"in a kernel, the operator {_OPERATORS[name]} does not take {operands}",
            "Work element by element"
            if "array(" in arguments
            else _OF_TIMES
            if "time64[" in arguments or "delta64[" in arguments
            else "Convert the operands to numbers that it takes",
            is_operation,
        )
    return Finding(
        f"in a kernel, {name} cannot be called with ({types})",
        "Write a loop over the elements"
        if "array(" in arguments
        else f"Call {name} with scalars that it takes, or write it out",
        is_call_of(name),
    )


#: NumPy's text where no type holds two, and Numba's name of a type that NumPy has and it lacks.
_NO_COMMON_TYPE = re.compile(
    r"do not have a common DType|^(?:NumbaNotImplementedError)?\W*b?float16\W*$", re.MULTILINE
)

_LOOP = re.compile(r"Invalid use of getiter with parameters \((.+?)\)\n")

_INDEXED = re.compile(
    r"No implementation of function Function\(<built-in function (?:static_)?getitem>\) found for "
    r"signature:.*?>>> (?:static_)?getitem\((.*?)\)\s*\n",
    re.DOTALL,
)
#: Types of numbers.
_NUMBER = re.compile(r"bool|(?:u?int|float|complex)\d+")
_ARRAY_AS_CONDITION = re.compile(
    r"No implementation of function Function\(<class 'bool'>\) found for signature:"
    r".*?>>> bool\((?:readonly )?(array\(.+?\))\)\s*\n",
    re.DOTALL,
)

_RULES: tuple[_Rule, ...] = tuple(
    _Rule(re.compile(pattern, re.DOTALL), tell)
    for pattern, tell in (
        (r"TypingError: kerneldsl\.([\w.]+): ([^\n]*)", _explain_intrinsic),
        (r"TypingError: (\w+: [\w ]+ is declared as [^\n]*)", _explain_declared),
        (r"NRT required but not enabled|_ol_array_allocate|array_allocate", _explain_memory),
        (
            r"Unknown attribute '(\w+)' of type Module\(<module '([\w.]+)'",
            _explain_module_attribute,
        ),
        (r"Unknown attribute '(\w+)' of type (.+?)\n", _explain_attribute),
        (r"NameError: name '(\w+)' is not defined", _explain_undefined),
        (r"[Vv]ariable '(\w+)(?:\.\d+)?' (?:is not defined|referenced before)", _explain_undefined),
        (r"failed to unpack (.+?)(?:\n|$)", _explain_unpacking),
        (r"wrong tuple length for .*?expected (\d+), got (\d+)", _explain_unpacked_count),
        (r"Unsupported array index type (.+?) in ", _explain_index_type),
        (r"cannot index (array\(.+?\)) with (\d+) indices", _explain_index_count),
        (r"tuple index out of range", _explain_tuple_index),
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
