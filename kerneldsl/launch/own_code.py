"""Unit and traits of a kernel with its own code: what its signature and its CPU function say.

Of CUDA C++, PTX or a cubin nothing is analyzed. The unit has the parameters alone. Which arrays are
written, and the work of a thread, are those of the CPU function. Without one, all arrays are
written.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from kerneldsl.analysis.traits import KernelTraits
from kerneldsl.contract.device_code import DeviceCode, place_of_entry
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import ArrayKind, Kind

__all__ = ["traits_of_code", "unit_of_code"]


def unit_of_code(
    code: DeviceCode, function: Callable[..., Any], host: FunctionUnit | None
) -> FunctionUnit:
    """Make the unit of a kernel.

    - `code`: the kernel.
    - `function`: a Python function with its parameters, which does nothing.
    - `host`: the CPU function. The traits depend on its captured constants, so the unit does.
    """
    parameters = function.__code__.co_varnames[: function.__code__.co_argcount]
    (tree,) = ast.parse(f"def kernel({', '.join(parameters)}): pass").body
    assert isinstance(tree, ast.FunctionDef)
    line, column = place_of_entry(code)
    tree.lineno, tree.col_offset = line, column
    tree.end_col_offset = column + len(code.entry.partition("<")[0].rpartition("::")[2])
    return FunctionUnit(
        name=code.entry,
        qualname=code.entry,
        module=function.__module__,
        filename=code.module.name,
        first_line=line,
        tree=tree,
        parameters=parameters,
        uses={},
        callees={},
        constants={},
        namespace={},
        captured=() if host is None else host.captured,
        function=function,
    )


def traits_of_code(kinds: tuple[Kind, ...], host: KernelTraits | None) -> KernelTraits:
    """Return the traits of a kernel, some of them from its CPU function.

    Its indices are not mapped: each thread has one, and reads it from ``blockIdx`` and
    ``threadIdx``.
    """
    arrays = frozenset(i for i, kind in enumerate(kinds) if isinstance(kind, ArrayKind))
    return KernelTraits(
        uses_block=host is not None and host.uses_block,
        uses_grid_only=False,
        grid_ndims=frozenset(),
        has_barrier=False,
        uses_dynamic_shared=host is not None and host.uses_dynamic_shared,
        static_shared_bytes=0,
        written=arrays if host is None else arrays & host.written,
        augmented=(),
    )
