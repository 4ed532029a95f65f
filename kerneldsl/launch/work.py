"""Work of a kernel for one index: of its package, of the cache, or counted on its IR.

A plan is made before the code of a mapping is found, so the work has a separate entry of the cache.
The CPU needs no plan before its code: it counts while it compiles, and stores the work with the
code.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kerneldsl.analysis.index_forms import IndexForm
from kerneldsl.analysis.work import KernelWork, Place, RegionWork
from kerneldsl.contract import Compiler, Dim3
from kerneldsl.contract.findings import finding_text, from_numbers
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import ArrayKind, Kind, format_signature
from kerneldsl.launch.recorded import Counted, note_work, recordings
from kerneldsl.utilities.modules import may_be_shipped
from kerneldsl.utilities.untrusted import parse_json

if TYPE_CHECKING:
    from kerneldsl.launch.request import Request

__all__ = ["assumed_work", "kernel_work", "wide_stores"]

_NOTHING = KernelWork()


def kernel_work(request: Request, block_dim: Dim3 | None = None) -> KernelWork:
    """Return what a kernel does for one index; nothing if it cannot be compiled.

    - `request`: the launch.
    - `block_dim`: threads of a block, if they are known and the plan depends on them.
    """
    state, compiler, kinds = request.state, request.device.compiler, request.kinds
    if state.counted is None:
        return assumed_work(kinds)
    key = (compiler.name, kinds, block_dim)
    found = state.works.get(key)
    if found is not None and not recordings:
        return found
    if found is None:
        found = state.works[key] = _find(compiler, state.counted, kinds, block_dim)
    note_work(Counted(state.counted, kinds, block_dim, found))
    return found


def wide_stores(request: Request) -> tuple[str, ...]:
    """Return what to say of float32 elements that a kernel computes in float64."""
    stored, counted = kernel_work(request).wide_stores, request.state.counted
    if not stored or counted is None:
        return ()
    return tuple(map(finding_text, from_numbers(stored, counted)))


def assumed_work(kinds: tuple[Kind, ...]) -> KernelWork:
    """Return the work that is assumed of a kernel without a CPU function.

    Each thread reads and writes one element of each array, as most kernels do that memory limits.
    """
    zero, places = IndexForm(constant=0), list[Place]()
    for position, kind in enumerate(kinds):
        if isinstance(kind, ArrayKind):
            index = (IndexForm.axis(0), *(zero,) * (kind.ndim - 1))[: kind.ndim]
            places += [Place(position, position, index, is_store) for is_store in (False, True)]
    return KernelWork(RegionWork({"add": len(places) // 2}, tuple(places)))


def _find(
    compiler: Compiler, unit: FunctionUnit, kinds: tuple[Kind, ...], block_dim: Dim3 | None
) -> KernelWork:
    if may_be_shipped() and not recordings:
        from kerneldsl.shipping.key import work_of

        shipped = work_of(unit, kinds, block_dim)
        if shipped is not None:
            return shipped
    try:
        if recordings:
            return _counted(compiler, unit, kinds, block_dim)
        return _remembered(compiler, unit, kinds, block_dim)
    except _UnreadError:
        return _NOTHING


class _UnreadError(Exception):
    """The target cannot read the kernel."""


def _counted(
    compiler: Compiler, unit: FunctionUnit, kinds: tuple[Kind, ...], block_dim: Dim3 | None
) -> KernelWork:
    from kerneldsl.launch.artifact import call_with_room

    try:
        found = call_with_room(compiler.work, unit, kinds, block_dim)
    except (ImportError, AttributeError) as error:
        from kerneldsl.lowering.numba_internals.moved import moved_name

        moved = moved_name(error)
        if moved is None:
            raise
        raise moved from error
    if found is None:
        raise _UnreadError
    return found


def _remembered(
    compiler: Compiler, unit: FunctionUnit, kinds: tuple[Kind, ...], block_dim: Dim3 | None
) -> KernelWork:
    """Return the work of the cache, else count it."""
    from kerneldsl.cache.reasons import UncacheableError
    from kerneldsl.cache.remembered import Computed, remembered
    from kerneldsl.cache.toolchain import toolchain_identity
    from kerneldsl.frontend.fingerprint import UnidentifiedError, identify

    counted: list[KernelWork] = []

    def compute() -> Computed:
        counted.append(_counted(compiler, unit, kinds, block_dim))
        text = json.dumps(counted[0].to_json(), separators=(",", ":"))
        return Computed(text, (), f"{unit.module}.{unit.qualname}")

    try:
        about = {
            "value": "work",
            "target": compiler.code_family,
            "signature": format_signature(kinds),
            "block": str(block_dim),
            **identify(unit),
            **toolchain_identity(),
        }
    except (UncacheableError, UnidentifiedError):
        return _counted(compiler, unit, kinds, block_dim)
    text = remembered(about, compute)
    if counted:
        return counted[0]
    try:
        return KernelWork.from_json(parse_json(text))
    except (ValueError, TypeError, AttributeError):
        return _counted(compiler, unit, kinds, block_dim)
