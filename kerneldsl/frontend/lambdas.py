"""Lambdas as the functions that they stand for."""

from __future__ import annotations

import ast
import types
from collections.abc import Iterable

__all__ = ["LAMBDA_NAME", "find_lambda", "function_of_lambda"]

#: Name of a lambda where a function needs one.
LAMBDA_NAME = "lambda_"


def function_of_lambda(node: ast.Lambda, name: str = LAMBDA_NAME) -> ast.FunctionDef:
    """Return the function that gives the value of a lambda's expression.

    - `node`: the lambda; its nodes are shared.
    - `name`: the function's name.
    """
    body = ast.copy_location(ast.Return(node.body), node.body)
    function = ast.FunctionDef(name, node.args, [body], [], None, None)
    return ast.copy_location(function, node)


def find_lambda(
    candidates: Iterable[ast.Lambda], code: types.CodeType, lines: list[str]
) -> ast.Lambda | None:
    """Find the lambda that code was compiled from; ``None`` if that cannot be determined.

    - `candidates`: lambdas that begin on the code's line; columns are in characters.
    - `code`: the lambda's.
    - `lines`: the text's.

    References
    ----------
    Python Language Reference, section "Code objects": ``co_positions``.
    """
    found = list(candidates)
    span = _span(code, lines)
    if span is not None:
        found = [each for each in found if _holds(each.body, span)]
        # Of nested lambdas, the innermost one that contains the code is taken.
        found = sorted(found, key=lambda each: each.col_offset)[-1:]
    return found[0] if len(found) == 1 else None


_Place = tuple[int, int]


def _span(code: types.CodeType, lines: list[str]) -> tuple[_Place, _Place] | None:
    """Return where code begins and ends, lines from 1 and columns in characters.

    ``None`` where Python keeps no columns (``-X no_debug_ranges``).
    """
    starts, ends = [], []
    for line, end_line, column, end_column in code.co_positions():
        if line is None or end_line is None or column is None or end_column is None:
            continue
        if (line, column) != (end_line, end_column):  # as at the beginning of each function
            starts.append((line, column))
            ends.append((end_line, end_column))
    if not starts or max(ends)[0] > len(lines):
        return None
    return _in_characters(min(starts), lines), _in_characters(max(ends), lines)


def _in_characters(place: _Place, lines: list[str]) -> _Place:
    line, column = place
    return line, len(lines[line - 1].encode()[:column].decode(errors="replace"))


def _holds(body: ast.expr, span: tuple[_Place, _Place]) -> bool:
    start = (body.lineno, body.col_offset)
    end = (body.end_lineno or 0, body.end_col_offset or 0)
    return start <= span[0] and span[1] <= end
