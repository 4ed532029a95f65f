"""Makes a failing program smaller: drops statements and parts of expressions while it still fails.

A candidate counts if it fails in the same way and is still a program: the oracle runs it, in either
order of the threads, with the same results.
"""

from __future__ import annotations

import ast
import copy
import multiprocessing
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.fuzz.differences import compare
from tests.fuzz.outcomes import Outcome, check_program, expected_results
from tests.fuzz.program import Program

__all__ = ["shrink"]

_PATIENCE = 60


def _failures(program: Program, target: str, variant: str) -> list[Outcome]:
    share = 0.0 if variant == "plain" else 1.0
    found = check_program(program, [target], share=share)
    return [o for o in found if o.kind != "right" and o.variant == variant]


def _child(program: Program, target: str, variant: str, told: Any) -> None:
    found = _failures(program, target, variant)
    told.put((found[0].kind, _words(found[0].detail)) if found else ("right", ""))


def _words(detail: str) -> str:
    """The first words of a message without what it quotes, so that it can be told from another."""
    kind = re.match(r"\w+", detail)
    said = re.findall(r"cannot be compiled: (.{0,24})", detail)
    return f"{kind[0] if kind else ''} {re.sub(r'[^a-z ]', '', said[0]) if said else ''}"


def _outcome(program: Program, target: str, variant: str) -> tuple[str, str]:
    """Kind and words of what comes of a program, in a process of its own."""
    context = multiprocessing.get_context("fork")
    told: Any = context.SimpleQueue()
    process = context.Process(target=_child, args=(program, target, variant, told), daemon=True)
    process.start()
    process.join(_PATIENCE)
    if process.is_alive():
        process.kill()
        process.join()
        return "hang", ""
    return told.get() if not told.empty() else ("crash", "process")


def _is_program(program: Program) -> bool:
    """Whether the oracle runs it, without a race or undefined values."""
    try:
        one, other = expected_results(program), expected_results(program, is_reversed=True)
    except Exception:  # noqa: BLE001 - whatever it lacks now
        return False
    return not compare(one, other)


def _candidates(text: str) -> Iterator[str]:
    """Programs with one statement less, a block in place of its statement, or a part of a value."""
    tree = ast.parse(text)
    places = [
        (node_number, field, position)
        for node_number, node in enumerate(ast.walk(tree))
        for field in ("body", "orelse")
        if isinstance(getattr(node, field, None), list)
        for position in range(len(getattr(node, field)))
    ]
    for number, field, position in reversed(places):
        for is_hoisted in (False, True):
            changed = copy.deepcopy(tree)
            owner = list(ast.walk(changed))[number]
            block = getattr(owner, field)
            statement = block[position]
            if isinstance(statement, ast.Import):
                continue
            inner = getattr(statement, "body", [])
            if is_hoisted and (isinstance(statement, ast.FunctionDef) or not inner):
                continue
            block[position : position + 1] = inner if is_hoisted else []
            if not block and field == "body":
                block.append(ast.Pass())
            yield ast.unparse(ast.fix_missing_locations(changed)) + "\n"
    yield from _smaller_values(tree)


def _smaller_values(tree: ast.Module) -> Iterator[str]:
    nodes = list(ast.walk(tree))
    for number, node in enumerate(nodes):
        for field in ("value", "test", "left", "right", "iter", "slice"):
            value = getattr(node, field, None)
            if not isinstance(value, ast.BinOp | ast.IfExp | ast.BoolOp | ast.Call):
                continue
            parts = [p for p in ast.iter_child_nodes(value) if isinstance(p, ast.expr)]
            for position in range(len(parts)):
                changed = copy.deepcopy(tree)
                owner = list(ast.walk(changed))[number]
                old = getattr(owner, field)
                part = [p for p in ast.iter_child_nodes(old) if isinstance(p, ast.expr)][position]
                setattr(owner, field, part)
                yield ast.unparse(ast.fix_missing_locations(changed)) + "\n"


def shrink(program: Program, target: str, variant: str = "plain") -> Program:
    """Return a smaller program that fails in the same way on the target."""
    failure = _outcome(program, target, variant)
    if failure[0] == "right":
        return program
    position = tried = 0  # go on where the last part was dropped, and once round from there
    while True:
        candidates = list(_candidates(program.text))
        if tried >= len(candidates):
            break
        position %= len(candidates)
        candidate = replace(program, text=candidates[position])
        tried += 1
        if (
            len(candidate.text) < len(program.text)
            and (program.is_divergent or _is_program(candidate))
            and _outcome(candidate, target, variant) == failure
        ):
            program, tried = candidate, 0
        else:
            position += 1
    return program
