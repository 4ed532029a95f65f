"""Read a call of ``kd.ptx``: its text, what it gives and the values that it takes."""

from __future__ import annotations

import ast
import re
from typing import Any

from kerneldsl.errors.values import safe_repr
from kerneldsl.frontend.report import Reporter
from kerneldsl.frontend.statics import StaticEvaluator
from kerneldsl.language.intrinsics.intrinsic import Intrinsic
from kerneldsl.utilities.formatting import format_count

__all__ = ["read_inline_call"]

_CALL = 'kd.ptx("add.s32 $0, $1, $2;", a, b, out=kd.int32)'
#: A dollar sign and what it is before: another one, or an operand's number.
_DOLLAR = re.compile(r"\$(\$|\d+)?")


def read_inline_call(
    node: ast.Call, intrinsic: Intrinsic, statics: StaticEvaluator, reporter: Reporter
) -> tuple[dict[str, Any], list[ast.expr]]:
    """Return the constants of a call, and the expressions of the values that it takes.

    Raises where the text names an operand that there is not, or leaves out a result: LLVM would
    end the process over it.
    """
    static: dict[str, Any] = {"out": (), "pure": False}
    for keyword in node.keywords:
        if keyword.arg not in static:
            reporter.fail(
                keyword,
                f"kd.ptx has no parameter {keyword.arg!r}",
                f"Write {_CALL}, and pure=True where the result depends on the values alone",
            )
        static[keyword.arg] = statics.argument(intrinsic, keyword.arg, keyword.value)
    if not node.args:
        reporter.fail(node, "kd.ptx was given no text", f"Write {_CALL}")
    first, *values = node.args
    if any(isinstance(value, ast.Starred) for value in node.args):
        reporter.fail(node, "* cannot be used in kd.ptx", "Name each value")
    text = static["text"] = statics.argument(intrinsic, "text", first)
    if not isinstance(text, str) or not text.strip() or not text.isascii() or "\0" in text:
        reporter.fail(
            first,
            f"kd.ptx: the text is {safe_repr(text)}",
            f"Write {_CALL}",
            limit="It is the text of instructions, in ASCII, and known when the kernel is compiled",
            value=text,
        )
    if not isinstance(static["pure"], bool):
        reporter.fail(node, f"kd.ptx: pure is {safe_repr(static['pure'])}", "Write pure=True")
    _check_operands(text, len(static["out"]), len(values), first, reporter)
    return static, values


def _check_operands(
    text: str, results: int, values: int, node: ast.expr, reporter: Reporter
) -> None:
    named = set()
    for found in _DOLLAR.finditer(text):
        if found[1] is None:
            reporter.fail(
                node,
                f"kd.ptx: {text[found.start() : found.start() + 6]!r} in {text!r} is not an "
                "operand",
                "Write $0, $1, … for operands, and $$ for a dollar sign",
            )
        if found[1] != "$":
            named.add(int(found[1]))
    count = results + values
    beyond = sorted(number for number in named if number >= count)
    if beyond:
        reporter.fail(
            node,
            f"kd.ptx: {text!r} names ${beyond[0]}",
            f"Give more values, or say by out= what it gives: {_CALL}",
            limit=f"There are {format_count(results, 'result')} and "
            f"{format_count(values, 'value')}, "
            + (f"$0 to ${count - 1}, results first" if count else "so it can name none"),
            value=beyond[0],
        )
    missing = sorted(set(range(results)) - named)
    if missing:
        reporter.fail(
            node,
            f"kd.ptx: {text!r} does not name ${missing[0]}, a result",
            "Write to it, or leave it out of out=",
            value=missing[0],
        )
