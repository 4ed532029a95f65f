"""What the threads of a warp or a block compute together: ``kd.warp`` and ``kd.block``."""

from __future__ import annotations

from tests.fuzz.body import Body
from tests.fuzz.expressions import Expression
from tests.fuzz.typing import NARROW_INTEGERS

__all__ = ["group"]


def group(body: Body, depth: int) -> None:
    """What the warp or the block computes together, maybe in a branch that varies in the warp."""
    body.features.add("group")
    if body.expressions.chance(5):
        with body.block(f"if {body.expressions.condition(1)}:"):
            _compute_together(body, "warp", is_whole=False)
        return
    group = body.expressions.choose(("warp", "block", "block"))
    _compute_together(body, group, is_whole=not body.may_return)


def _compute_together(body: Body, group: str, *, is_whole: bool) -> None:
    """Call a word of a group; `is_whole` says that its first thread takes part."""
    choose = body.expressions.choose
    if body.expressions.chance(4):
        word, dtype = choose((("count", "int32"), ("any", ""), ("all", "")))
        call = f"kd.{group}.{word}({body.expressions.condition(1)})"
        body.take(
            Expression(call, dtype) if dtype else Expression(f"(3 if {call} else 1)", "int64")
        )
        return
    dtype = choose((*body.variables, *body.shared)).dtype
    value = body.expressions.of_type(dtype, 1)
    words = ["sum", "sum", "max", "min", "inclusive_scan", "exclusive_scan", "exchange", "sort"]
    if is_whole:
        words.append("broadcast")
    word = choose(words)
    if word in ("broadcast", "exchange"):
        sources = (
            ("0",) if word == "broadcast" else (f"{body.thread} ^ 1", "m", f"31 - {body.thread}")
        )
        value += f", {choose(sources)}"
    result = dtype
    if word in ("sum", "inclusive_scan", "exclusive_scan") and dtype in NARROW_INTEGERS:
        result = "uint32" if dtype.startswith("u") else "int32"
    body.take(Expression(f"kd.{group}.{word}({value})", result))
