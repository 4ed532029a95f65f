"""Typing of the arguments and the result of linked functions, and their conversions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llvmlite import ir
from numba import errors, types

from kerneldsl.frontend.linked_code import LinkedCode
from kerneldsl.language.intrinsics.intrinsic import Intrinsic
from kerneldsl.language.kinds import ArrayKind
from kerneldsl.lowering.calls import Call, Emitter
from kerneldsl.lowering.types import element_type

__all__ = ["EMITTERS", "call_rule", "linked_array_rule", "linked_rule"]


class DeclaredTypeError(errors.TypingError):  # type: ignore[misc]
    """An argument is not what the signature of a function declares."""

    remedy = "Give it what its signature declares: convert a number, or pass a contiguous array"


def linked_rule(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    """Type the conversion of an argument or a result; what follows is looked at by analyses."""
    value, *others = args
    declared = _number(static["what"], static["dtype"], value)
    return declared(declared, *others)


def linked_array_rule(
    intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]
) -> Any:
    """Type the check of an array."""
    (array,) = args
    return types.void(_array(static["what"], ArrayKind(static["dtype"], static["ndim"]), array))


def call_rule(code: LinkedCode, function: str, names: tuple[str, ...]) -> Any:
    """Return the rule that types a call of a GPU's code."""

    def rule(args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
        wanted = []
        for number, (name, kind, arg) in enumerate(zip(names, code.parameters, args, strict=True)):
            what, plain = f"{function}: {name}", types.unliteral(arg)
            if isinstance(kind, ArrayKind):
                has_strides = code.passes_strides(number)
                wanted.append(_array(what, kind, plain, has_strides=has_strides))
            else:
                wanted.append(_number(what, kind.dtype, plain))
        result = types.void if code.result is None else element_type(code.result.dtype)
        return result(*wanted)

    return rule


def _number(what: str, dtype: str, arg: Any) -> Any:
    wanted = element_type(dtype)
    allowed: Any = types.Integer | types.Boolean
    if isinstance(wanted, types.Float):
        allowed |= types.Float
    if not isinstance(arg, allowed):
        raise DeclaredTypeError(f"{what} is declared as {dtype}, and is {arg}")
    return wanted


def _array(what: str, declared: ArrayKind, arg: Any, *, has_strides: bool = False) -> Any:
    is_same = isinstance(arg, types.Array) and arg.dtype == element_type(declared.dtype)
    if not is_same or arg.ndim != declared.ndim:
        raise DeclaredTypeError(f"{what} is declared as {declared}, and is {arg}")
    is_told = has_strides and declared.layout in ("A", arg.layout)
    if arg.layout != "C" and not is_told:
        raise DeclaredTypeError(
            f"{what} is declared as {declared}, and is {arg}: the function is given an address, "
            "so elements must be in the order of their indices, without gaps"
        )
    return arg


def _same(call: Call) -> ir.Value:
    return call.args[0]


def _nothing(call: Call) -> None:
    """Write nothing."""


#: Emitters of intrinsics for targets that run the Python body; arguments are converted by the
#: typing rule alone.
EMITTERS: dict[str, Emitter] = {
    "linked.number": _same,
    "linked.array": _nothing,
    "linked.result": _same,
    "linked.pure_result": _same,
}
