"""Signatures in Numba's notation: as text, and as Numba's own objects, without importing Numba."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn, cast

from kerneldsl.errors.values import safe_repr
from kerneldsl.language.element_types import DTYPE_NAMES, ELEMENT_TYPES, element_name
from kerneldsl.language.kinds import ArrayKind, Kind, Layout, ScalarKind, TupleKind
from kerneldsl.language.times import is_time_name
from kerneldsl.utilities.modules import imported, is_of_numba

if TYPE_CHECKING:
    import ast

__all__ = [
    "is_signature",
    "parse_signature",
    "read_function_signature",
    "read_signature",
    "read_signatures",
]

#: Other names of element types; short ones, such as "f4", are those of the array interface.
_ALIASES = {
    **{row.typestr[1:]: row.name for row in ELEMENT_TYPES.values() if row.typestr},
    **{"b1": "bool", "boolean": "bool", "bool_": "bool", "byte": "uint8", "char": "int8"},
    **{"uchar": "uint8", "short": "int16", "ushort": "uint16", "intc": "int32", "uintc": "uint32"},
    **{"int": "int64", "int_": "int64", "long_": "int64", "longlong": "int64", "intp": "int64"},
    **{"uint": "uint64", "ulong": "uint64", "ulonglong": "uint64", "uintp": "uint64"},
    **{"float": "float64", "double": "float64", "float_": "float32", "complex": "complex128"},
}
_RETURNS_NOTHING = ("void", "none")


def parse_signature(text: str) -> tuple[Kind, ...]:
    """Read kinds from Numba's notation.

    Parameters
    ----------
    text : str
        Such as ``"float32, float32[::1], (int32, int64)"`` or ``"void(float32, float32[:])"``; a
        named tuple is ``"{scale: float32, x: float32[:]}"``.

    Returns
    -------
    tuple of Kind
        One for each parameter; parentheses around all of them are a tuple here, see
        :func:`~kerneldsl.language.kinds.for_parameters`. A comma at the end changes nothing, but
        that ``"(f8[:],),"`` is read: without it that is an error, since Numba has it for an array.

    Raises
    ------
    ValueError
        Where the text is not a signature; the message names the part.

    Examples
    --------
    >>> matrix, pair = parse_signature("float32[:, ::1], (int32, f8)")
    >>> matrix
    ArrayKind(dtype='float32', ndim=2, layout='C')
    >>> str(pair)
    '(int32, float64)'
    >>> [str(kind) for kind in parse_signature("void(double, UniTuple(int32, 2))")]
    ['float64', '(int32, int32)']
    >>> parse_signature("{scale: f8, n: i4}")[0].names
    ('scale', 'n')
    """
    return _Text(text).read()


class _Text:
    """The text of a signature, for messages."""

    def __init__(self, text: str) -> None:
        self.text = text

    def read(self) -> tuple[Kind, ...]:
        import ast

        body = " ".join(self.text.split())
        if not body:
            return ()
        try:
            # A call's arguments, because `f8[:],` and nothing at all are read as well.
            call = ast.parse(f"_({body})" if body != "()" else "_()", mode="eval").body
        except SyntaxError:
            self.fail("cannot read it as types with a comma between two")
        if not isinstance(call, ast.Call) or call.keywords:
            self.fail("cannot read it as types with a comma between two")
        parts = call.args
        if len(parts) == 1 and not body.endswith(","):
            self.refuse_tuple_of_one(parts[0])
        if len(parts) == 1 and (inner := _call_of(parts[0])) is not None:
            returns, parts = inner
            if returns not in _RETURNS_NOTHING:
                if returns in ("Tuple", "UniTuple"):
                    return (self.kind(call.args[0]),)
                self.fail(f"it returns {returns}, and kernels return nothing: write void(…)")
        return tuple(map(self.kind, parts))

    def read_with_result(self) -> tuple[Kind | None, tuple[Kind, ...]]:
        """Read ``result(parameters)``; ``None`` is the kind of no result."""
        import ast

        try:
            node = ast.parse(" ".join(self.text.split()), mode="eval").body
        except SyntaxError:
            node = None
        found = None if node is None else _call_of(node)
        if found is None:
            self.fail("write the type of the result before those of the parameters")
        returns, parts = found
        result = None if returns in _RETURNS_NOTHING else ScalarKind(self.dtype(returns))
        return result, tuple(map(self.kind, parts))

    def refuse_tuple_of_one(self, node: ast.expr) -> None:
        """Refuse ``"(f8[:],)"``, which for Numba is one array, and here would be a tuple of it."""
        import ast

        if isinstance(node, ast.Tuple) and len(node.elts) == 1:
            inner, shown = ast.unparse(node.elts[0]), ast.unparse(node)
            self.fail(
                f"{shown} is a tuple of one. Write {inner!r} for a parameter that is not a tuple, "
                f"or '{shown},' for one that is"
            )

    def kind(self, node: ast.expr) -> Kind:
        import ast

        if isinstance(node, ast.Tuple):
            return TupleKind(tuple(map(self.kind, node.elts)))
        if isinstance(node, ast.Dict) and node.keys:
            names = tuple(_name_of(key) if key is not None else None for key in node.keys)
            if None not in names:
                kinds = tuple(map(self.kind, node.values))
                return TupleKind(kinds, tuple(name for name in names if name))
        if (time := _time_of(node)) is not None:
            return ScalarKind(time)
        if isinstance(node, ast.Subscript):
            return self.array(node)
        if (call := _call_of(node)) is not None:
            return self.tuple_of(node, *call)
        name = _name_of(node)
        if name is None:
            self.fail(f"cannot read {ast.unparse(node)!r}")
        return ScalarKind(self.dtype(name))

    def dtype(self, name: str) -> str:
        dtype = _ALIASES.get(name, name)
        if dtype not in DTYPE_NAMES:
            self.fail(f"unknown dtype {name!r}; known are {', '.join(DTYPE_NAMES)}")
        return dtype

    def array(self, node: ast.Subscript) -> ArrayKind:
        import ast

        name, time = _name_of(node.value), _time_of(node.value)
        if name is None and time is None:
            self.fail(f"cannot read {ast.unparse(node)!r}")
        dtype = time or self.dtype(name or "")
        axes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if not axes:
            return ArrayKind(dtype, 0, "C")
        steps = [_step_of(axis) for axis in axes]
        shown = ast.unparse(node)
        if None in steps or steps.count(1) > 1:
            self.fail(f"axes must be ':' or one '::1', found {shown}")
        layout: Layout = "A"
        if steps[-1] == 1:
            layout = "C"
        elif steps[0] == 1:
            layout = "F"
        elif 1 in steps:
            self.fail(f"'::1' must stand first or last, found {shown}")
        return ArrayKind(dtype, len(axes), layout)

    def tuple_of(self, node: ast.expr, name: str, arguments: list[ast.expr]) -> TupleKind:
        """Read ``Tuple((int32, float64))`` and ``UniTuple(int32, 2)``."""
        import ast

        if name == "Tuple" and len(arguments) == 1 and isinstance(arguments[0], ast.Tuple):
            return TupleKind(tuple(map(self.kind, arguments[0].elts)))
        if name == "UniTuple" and len(arguments) == 2:
            count = getattr(arguments[1], "value", None)
            if type(count) is int and count >= 0:
                return TupleKind((self.kind(arguments[0]),) * count)
        self.fail(f"cannot read {ast.unparse(node)!r}")

    def fail(self, why: str) -> NoReturn:
        raise ValueError(f"signature {self.text!r}: {why}")


def _name_of(node: ast.expr) -> str | None:
    """Return the name of a type, without the module it may be written with."""
    import ast

    if isinstance(node, ast.Attribute):
        return node.attr if _name_of(node.value) in ("types", "numba", "nb", "kd", "np") else None
    return node.id if isinstance(node, ast.Name) else None


def _time_of(node: ast.expr) -> str | None:
    """Return the name of dates or durations with their unit, such as ``datetime64[s]``."""
    import ast

    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Name):
        return None
    name = f"{_name_of(node.value)}[{node.slice.id}]"
    return name if is_time_name(name) else None


def _call_of(node: ast.expr) -> tuple[str, list[ast.expr]] | None:
    import ast

    if not isinstance(node, ast.Call) or node.keywords:
        return None
    name = _name_of(node.func)
    return None if name is None else (name, node.args)


def _step_of(axis: ast.expr) -> int | None:
    """Return 0 for ``:`` and 1 for ``::1``; ``None`` for anything else."""
    import ast

    if not isinstance(axis, ast.Slice) or axis.lower is not None or axis.upper is not None:
        return None
    if axis.step is None:
        return 0
    return 1 if getattr(axis.step, "value", None) == 1 else None


# --------------------------------------------------------------------- objects


def is_signature(value: object) -> bool:
    """Return whether an object is the text of a signature, or a signature of Numba's."""
    return isinstance(value, str) or is_of_numba(value, "Signature")


def read_signature(value: Any) -> tuple[Kind, ...]:
    """Read one signature.

    - `value`: ``"void(float32, float32[:])"``, ``numba.void(numba.float32, numba.float32[:])``,
      ``(numba.float32, numba.float32[:])`` or ``("float32", record_dtype)``.
    - raises `ValueError` if it cannot be meant; the message names the part.
    """
    if isinstance(value, str):
        return parse_signature(value)
    if is_of_numba(value, "Signature"):
        if str(value.return_type) != "none":
            raise ValueError(
                f"signature {value}: it returns {value.return_type}, and kernels return nothing: "
                "write void(…)"
            )
        value = value.args
    elif not isinstance(value, tuple):
        value = (value,)
    return tuple(_kind_of(each) for each in value)


def read_signatures(value: Any) -> tuple[tuple[Kind, ...], ...]:
    """Read a decorator's argument: one signature, a list of them, or ``None`` for no signature."""
    if value is None:
        return ()
    each: Iterable[Any] = value if isinstance(value, list) else (value,)
    return tuple(dict.fromkeys(map(read_signature, each)))


def read_function_signature(value: Any) -> tuple[Kind | None, tuple[Kind, ...]]:
    """Read the signature of a function: the kind of its result, and those of its parameters.

    - `value`: ``"float32(float32, int32[::1])"`` or ``numba.float32(numba.float32)``.
    - returns: of ``void(…)`` the first is ``None``.
    - raises `ValueError` if it is not a signature; the message names the part.

    Examples
    --------
    >>> result, parameters = read_function_signature("float32(int32, float64[::1])")
    >>> str(result), [str(kind) for kind in parameters]
    ('float32', ['int32', 'float64[::1]'])
    """
    if isinstance(value, str):
        return _Text(value).read_with_result()
    if is_of_numba(value, "Signature"):
        is_empty = str(value.return_type) in _RETURNS_NOTHING
        result = None if is_empty else _kind_of(value.return_type)
        return result, tuple(map(_kind_of, value.args))
    raise ValueError(f"signature: {safe_repr(value)} is neither a text nor a signature of Numba")


def _kind_of(value: Any) -> Kind:
    if isinstance(value, (ScalarKind, ArrayKind, TupleKind)):
        return value
    if isinstance(value, str):
        kinds = parse_signature(f"{value},")  # of one parameter, so that it may be any tuple
        if len(kinds) == 1:
            return kinds[0]
    elif isinstance(value, getattr(imported("numpy"), "dtype", ())):
        found = element_name(cast(Any, value))
        if found is not None:
            return ScalarKind(found)
    elif is_of_numba(value, "Array"):
        dtype = _name_of_type(value.dtype)
        if dtype in ELEMENT_TYPES:
            return ArrayKind(dtype, value.ndim, "C" if value.ndim == 0 else value.layout)
    elif is_of_numba(value, "Record"):
        found = element_name(value.dtype)
        if found is not None:
            return ScalarKind(found)
    elif is_of_numba(value, "BaseTuple"):
        return TupleKind(tuple(map(_kind_of, value.types)))
    elif is_of_numba(value, "Type"):
        dtype = _name_of_type(value)
        if dtype in ELEMENT_TYPES or is_time_name(dtype):
            return ScalarKind(dtype)
    raise ValueError(
        f"signature: {value!r} is the type of no argument; an argument is one of "
        f"{', '.join(DTYPE_NAMES)}, an array such as float32[:], or a tuple of those"
    )


def _name_of_type(value: Any) -> str:
    """Return the name of the element type that one of Numba's types is, or its own name."""
    name = _ALIASES.get(str(value), str(value))
    if is_of_numba(value, "Record"):
        return element_name(value.dtype) or name
    if name in ELEMENT_TYPES or not is_of_numba(value, "Type"):
        return name
    from kerneldsl.language.structures import structure_name  # few programs have such types

    return structure_name(value) or name
