"""Specialization of a request and a mapping, from which code is compiled."""

from __future__ import annotations

from typing import Any

from kerneldsl.contract import (
    NO_PROMISES,
    ONE_EACH,
    Compiler,
    Dim3,
    ElementMapping,
    Promises,
    Specialization,
)
from kerneldsl.contract.abi import LaunchMode
from kerneldsl.errors import UnsupportedConstructError
from kerneldsl.language.kinds import ArrayKind, Kind
from kerneldsl.launch.recorded import recordings
from kerneldsl.launch.request import Request
from kerneldsl.launch.state import KernelState
from kerneldsl.utilities.formatting import format_count
from kerneldsl.utilities.modules import may_be_shipped

__all__ = [
    "make_specialization",
    "specialize",
    "specialize_anew",
    "useful_promises",
]


def specialize(request: Request, mapping: ElementMapping) -> Specialization:
    """Return what a launch is compiled for: what has been compiled already, if that will do."""
    promises = useful_promises(request, mapping)
    for known in request.state.forms.get(form_of(request, mapping), ()):
        if _serves(known.promises, promises):
            return known
    return _make(request, mapping, promises)


def specialize_anew(request: Request, mapping: ElementMapping) -> Specialization:
    """Return what a launch would be compiled for, were nothing compiled for its kernel yet."""
    return _make(request, mapping, useful_promises(request, mapping))


def form_of(request: Request, mapping: ElementMapping) -> tuple[Any, ...]:
    """Return all but the promises of what code is compiled for, as a key of the state's `forms`."""
    return (
        request.binding.codes,
        request.shape.forall_ndim,
        request.device,
        request.shape.block_dim,
        mapping,
    )


def useful_promises(request: Request, mapping: ElementMapping) -> Promises:
    """Return the promises that code with a mapping makes use of; fewer forms are compiled."""
    promises, traits = request.promises, request.state.traits
    if promises is NO_PROMISES:
        return promises
    return promises.for_mapping(
        mapping,
        is_wide=traits.uses_tiles or traits.views_vectors,
        # Shipped code has one form for all lengths of arrays.
        tests_extent=not traits.uses_block and not _is_of_package(request.state),
    )


def _is_of_package(state: KernelState) -> bool:
    """Return whether a package ships code of a kernel, or will."""
    if recordings:
        return True
    if not may_be_shipped():
        return False
    from kerneldsl.launch.shipped import ships_anything

    return ships_anything(state.unit)


def make_specialization(
    state: KernelState,
    compiler: Compiler,
    kinds: tuple[Kind, ...],
    mode: LaunchMode,
    block_dim: Dim3 | None,
    arch: str | None,
    *,
    ptx_version: str | None = None,
    mapping: ElementMapping = ONE_EACH,
    promises: Promises = NO_PROMISES,
) -> Specialization:
    """Return what code depends on; what it does not depend on is left out.

    - raises `UnsupportedConstructError` where an augmented assignment turns out to change an array
      that was not known to be written.
    """
    _refuse_hidden_writes(state, kinds)
    traits = state.traits
    if traits.infers_shared:
        from kerneldsl.analysis.analyze import traits_for

        traits = traits_for(state.unit, traits, kinds)
    return Specialization(
        state.unit,
        traits,
        kinds,
        state.options,
        mode,
        block_dim if compiler.compiles_for_block(state.traits) else None,
        arch,
        ptx_version,
        mapping,
        promises,
        state.code,
    )


def _make(request: Request, mapping: ElementMapping, promises: Promises) -> Specialization:
    return make_specialization(
        request.state,
        request.device.compiler,
        request.kinds,
        request.shape.mode,
        request.shape.block_dim,
        request.device.compiler.launch_arch(request.state.traits, request.device.arch),
        mapping=mapping,
        promises=promises,
    )


def _serves(compiled: Promises, found: Promises) -> bool:
    """Return whether code compiled for some promises is as good as code for those that were found.

    Such code only lacks tests of indices. Arrays that do not overlap, wide accesses,
    and addresses and arithmetic in 32 bits are worth another form.
    """
    return (
        found.cover(compiled)
        and found.is_disjoint == compiled.is_disjoint
        and found.is_narrow == compiled.is_narrow
        and found.has_narrow_integers == compiled.has_narrow_integers
        and all(
            mine.alignment == its.alignment
            for mine, its in zip(found.arrays, compiled.arrays, strict=False)
        )
    )


def _refuse_hidden_writes(state: KernelState, kinds: tuple[Kind, ...]) -> None:
    """Return what a kernel writes is known before its arguments' ranks are, and must stay true."""
    for each in state.traits.augmented:
        kind, index_count = kinds[each.position], each.indices(kinds)
        if (
            isinstance(kind, ArrayKind)
            and index_count < kind.ndim
            and each.position not in state.traits.written
        ):
            name = state.unit.parameters[each.position]
            indices = format_count(index_count, "index", "indices")
            raise UnsupportedConstructError(
                f"An augmented assignment changes a view of {name} in place: {name} has "
                f"{format_count(kind.ndim, 'axis', 'axes')} and gets {indices}",
                where=each.where,
                value=kind.ndim,
                limit="What a kernel writes must be known without the ranks of its arguments",
                remedy="Loop over its elements: for j in range(row.size): row[j] += value",
            )
