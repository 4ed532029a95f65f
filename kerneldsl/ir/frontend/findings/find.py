"""Find what to warn of in a kernel."""

from __future__ import annotations

from collections.abc import Iterator

from kerneldsl.contract.findings import Finding
from kerneldsl.ir.frontend.findings.differences import unsigned_differences
from kerneldsl.ir.frontend.findings.extremes import changed_extremes
from kerneldsl.ir.frontend.findings.flow import Flow
from kerneldsl.ir.frontend.findings.shifts import widened_shifts
from kerneldsl.ir.frontend.findings.signs import sign_changes
from kerneldsl.ir.frontend.findings.stores import lossy_stores
from kerneldsl.ir.operations import Function

__all__ = ["find"]


def find(flow: Flow, function: Function) -> tuple[Finding, ...]:
    """Return what to warn of in a function as it was read, each place once."""
    found: dict[tuple[int, str], Finding] = {}
    for each in _findings(flow, function):
        found.setdefault((id(each.place.node), each.text), each)
    return tuple(found.values())


def _findings(flow: Flow, function: Function) -> Iterator[Finding]:
    yield from sign_changes(flow)
    yield from lossy_stores(flow)
    yield from changed_extremes(flow, function)
    yield from unsigned_differences(flow)
    yield from widened_shifts(flow)
