"""Operations that older architectures have no instruction for.

Some words are refused there. Others have a sequence for them
(:mod:`targets.cuda.intrinsics.by_architecture`).

References
----------
PTX ISA, "PTX ISA Notes" and "Target ISA Notes" of each instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from llvmlite import ir

from kerneldsl.contract import Specialization
from kerneldsl.errors import CompileError
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.formatting import format_version
from targets.cuda.architectures import Architecture, PtxVersion, choose_ptx_version

__all__ = [
    "FLOAT8_PRODUCTS",
    "SINCE",
    "VECTOR_ATOMICS",
    "NewerOperation",
    "Writer",
    "check_words",
    "preferred_ptx",
]

#: Name of each word to the first compute capability and PTX version with it, and an alternative for
#: older ones.
SINCE: dict[str, tuple[int, PtxVersion, str]] = {
    "nv.tanh_approx_f32": (75, (7, 0), "math.tanh(x)"),
}


#: The first compute capability and PTX version that add to a vector by one instruction.
VECTOR_ATOMICS: tuple[int, PtxVersion] = (90, (8, 1))
#: The first compute capability and PTX version that multiply fragments of 8-bit floats.
FLOAT8_PRODUCTS: tuple[int, PtxVersion] = (89, (8, 4))


def preferred_ptx(specialization: Specialization, arch: Architecture) -> PtxVersion | None:
    """Return the PTX version for a kernel that has an instruction in no older one.

    ``None`` says that the oldest that serves will do.
    """
    uses = list(specialization.unit.all_uses())
    number, version = FLOAT8_PRODUCTS
    if arch.number >= number and choose_ptx_version(arch) < version:
        kinds = (str(getattr(kind, "dtype", "")) for kind in specialization.kinds)
        has_products = any(use.intrinsic.name == "mma" for use in uses)
        if has_products and any(kind.startswith("float8") for kind in kinds):
            return version
    number, version = VECTOR_ATOMICS
    if arch.number < number or choose_ptx_version(arch) >= version:
        return None
    may_add = specialization.traits.views_vectors and any(
        use.intrinsic.name == "atomic.add" for use in uses
    )
    return version if may_add else None


def check_words(
    specialization: Specialization, arch: Architecture, ptx_version: PtxVersion
) -> None:
    """Refuse a word that an architecture, or a version of PTX, does not have.

    Raises `CompileError`, which names it.
    """
    for unit in specialization.unit.reachable():
        for name, use in unit.uses.items():
            since = SINCE.get(use.intrinsic.name)
            if since is None:
                continue
            number, version, instead = since
            if arch.number < number or ptx_version < version:
                raise CompileError(
                    f"kd.{use.intrinsic.name} is compiled for {arch.name}, PTX ISA "
                    f"{format_version(ptx_version)}",
                    where=unit.locate_use(name),
                    value=arch.name,
                    limit=f"It needs compute capability {number // 10}.{number % 10} and PTX ISA "
                    f"{format_version(version)}",
                    remedy=f"Write {instead}, or compile for a newer architecture",
                )


#: Writes an operation on some values; ``None`` if it has no result.
Writer: TypeAlias = Callable[[ir.IRBuilder, Sequence[ir.Value]], ir.Value | None]


@dataclass(frozen=True)
class NewerOperation:
    """An operation with an instruction on newer architectures."""

    #: Types of the arguments and the result.
    kind: ir.FunctionType
    #: The first compute capability with the instruction, as :attr:`Architecture.number` has it.
    since: int
    #: The first PTX ISA version with it.
    since_ptx: PtxVersion
    #: Writes the instruction.
    native: Writer
    #: Writes the instructions of older architectures.
    older: Writer

    def define(
        self,
        builder: ir.IRBuilder,
        args: Sequence[ir.Value],
        arch: Architecture,
        ptx_version: PtxVersion,
    ) -> ir.Value | None:
        """Write it for an architecture."""
        is_new = arch.number >= self.since and ptx_version >= self.since_ptx
        return (self.native if is_new else self.older)(builder, args)
