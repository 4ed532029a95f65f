"""What the threads of a warp or a block compute together: ``kd.warp`` and ``kd.block``."""

from __future__ import annotations

from tests.fuzz.body import Body
from tests.fuzz.expressions import Expression
from tests.fuzz.typing import NARROW_INTEGERS

__all__ = ["group"]


def group(body: Body, depth: int) -> None:
    """What the warp or the block computes together, maybe in a branch that varies in the warp."""
    body.features |= {"groups", "group"}
    if body.expressions.chance(5):
        with body.block(f"if {body.expressions.condition(1)}:"):
            _compute_together(body, "warp", is_whole=False)
        if body.expressions.chance(2):
            with body.block("else:"):
                _compute_together(body, "warp", is_whole=False)
        return
    name = body.expressions.choose(("warp", "block", "block"))
    _compute_together(body, name, is_whole=not body.may_return)


def _compute_together(body: Body, name: str, *, is_whole: bool) -> None:
    """Call a word of a group; `is_whole` says that its first thread takes part."""
    choose = body.expressions.choose
    if body.expressions.chance(4):
        word, dtype = choose((("count", "int32"), ("any", ""), ("all", "")))
        call = f"kd.{name}.{word}({body.expressions.condition(1)})"
        body.take(
            Expression(call, dtype) if dtype else Expression(f"(3 if {call} else 1)", "int64")
        )
        return
    dtype = choose((*body.variables, *body.shared)).dtype
    if body.expressions.chance(4):
        dtype = body.expressions.dtype()
    value = body.expressions.of_type(dtype, 1)
    words = ["sum", "sum", "max", "min", "inclusive_scan", "exclusive_scan", "exchange", "sort"]
    words += ["sort"] + (["broadcast", "broadcast"] if is_whole else [])
    words += ["reduce", "reduce", "op_scan", "op_scan"] if body.operations else []
    word = choose(words)
    if word in ("reduce", "op_scan"):
        body.features.add("operation of a group")
        operation = choose(body.operations)
        kind = choose(("inclusive_scan", "exclusive_scan")) if word == "op_scan" else word
        given = f"{value}, {choose(('', 'op='))}{operation}"
        if kind == "exclusive_scan":
            given += f", {choose(('', 'initial=')) if 'op=' not in given else 'initial='}2"
        body.take(Expression(f"kd.{name}.{kind}({given})", dtype))
        return
    if word == "sort" and body.expressions.chance(2):
        _sort_values(body, name, Expression(value, dtype))
        return
    if word in ("broadcast", "exchange"):
        sources = (f"{body.thread} ^ 1", "m", f"31 - {body.thread}", f"{body.thread} // 2")
        if word == "broadcast":
            sources = ("0", f"min(m, {body.threads - 1})") if name == "block" else ("0",)
        value += f", {choose(sources)}"
    result = dtype
    if word in ("sum", "inclusive_scan", "exclusive_scan") and dtype in NARROW_INTEGERS:
        result = "uint32" if dtype.startswith("u") else "int32"
    if word == "exclusive_scan" and body.expressions.chance(3):
        value += ", initial=3"
    body.take(Expression(f"kd.{name}.{word}({value})", result))


def _sort_values(body: Body, name: str, keys: Expression) -> None:
    """Keys, and values of another dtype that come with them."""
    body.features.add("sort with values")
    key, value, dtype = body.fresh("a"), body.fresh("b"), body.expressions.dtype()
    values = body.expressions.of_type(dtype, 1)
    body.emit(f"{key}, {value} = kd.{name}.sort({keys.text}, {values})")
    for found in (Expression(key, keys.dtype), Expression(value, dtype)):
        body.take(found)
