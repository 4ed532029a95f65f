"""An intrinsic as Numba meets it: a global that can be typed and lowered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from llvmlite import ir
from numba import errors, types
from numba.core.typing.templates import AbstractTemplate

from kerneldsl.lowering.calls import Call, Emitter, TypingRule

__all__ = ["BoundIntrinsic"]


class BoundIntrinsic:
    """An operation with its constant parameters.

    It has the name by which the user knows it, such as ``"atomic.add"``. With `prefers_literals`
    the rule is first asked with types of constants that say their values.
    """

    def __init__(
        self,
        name: str,
        rule: TypingRule,
        emitter: Emitter,
        static: Mapping[str, Any],
        *,
        prefers_literals: bool = False,
    ) -> None:
        self.name = name
        self._rule = rule
        self._emitter = emitter
        self.static = dict(static)
        #: Where Numba looks for the type of an object that it does not know.
        self._numba_type_ = types.Function(_template(self, prefers_literals))

    def __repr__(self) -> str:
        return f"kerneldsl.{self.name}"

    def signature(self, args: tuple[Any, ...], kws: Mapping[str, Any]) -> Any:
        """Type a call, or raise ``TypingError`` with the rule that it broke."""
        if kws:
            raise errors.TypingError(f"{self!r} takes positional arguments only")
        return self._rule(args, self.static)

    def lowering(self, context: Any, sig: Any) -> Callable[..., ir.Value]:
        """Return what Numba's lowering calls with a builder and the arguments."""

        def lower(builder: ir.IRBuilder, args: Any, loc: Any = None) -> ir.Value:
            return self._emitter(Call(context, builder, sig, tuple(args), self.static))

        return lower


def _template(bound: BoundIntrinsic, prefers_literals: bool) -> type[AbstractTemplate]:
    def generic(self: Any, args: tuple[Any, ...], kws: Mapping[str, Any]) -> Any:
        return bound.signature(args, kws)

    def get_template_info(self: Any) -> dict[str, Any]:
        return {
            "kind": "intrinsic",
            "name": bound.name,
            "sig": "unknown",
            "filename": "kerneldsl/language/intrinsics/table.py",
            "lines": (0, 0),
            "docstring": "",
        }

    members = {
        "key": bound,
        "generic": generic,
        "get_template_info": get_template_info,
        "prefer_literal": prefers_literals,
    }
    return type(f"Intrinsic({bound.name})", (AbstractTemplate,), members)
