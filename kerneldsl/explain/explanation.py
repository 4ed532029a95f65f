"""Explanations as data: accesses, branches, arrays and findings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kerneldsl.contract import Dim3, PassRemark
from kerneldsl.errors import SourceLocation
from kerneldsl.explain.accesses import AccessReport
from kerneldsl.explain.roofline import Roofline
from kerneldsl.planner.block_occupancy import Occupancy
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.formatting import format_count
from kerneldsl.utilities.shown import Shown, ShownTuple

if TYPE_CHECKING:
    from kerneldsl.explain.formulas import Formulas

__all__ = ["FLOPS", "TENSOR_FMA", "ArrayTraffic", "BranchReport", "Explanation", "Finding"]

#: A product of tensor cores with the sum that it is added to.
TENSOR_FMA = "tensor fma"
#: Operations that count as arithmetic on floats, and as how many. Those of complex numbers are four
#: products and two sums. A division is three divisions and five fused products and sums, as Smith's
#: algorithm computes both of its choices.
FLOPS = {
    **{"add": 1, "sub": 1, "mul": 1, "div": 1, "fma": 2, TENSOR_FMA: 2},
    **{"complex add": 2, "complex sub": 2, "complex mul": 6, "complex div": 13},
}


@dataclass(frozen=True)
class Finding(Shown):
    """One thing to know about a kernel.

    Parameters
    ----------
    kind : str
        What it is about, such as ``"coalescing"`` or ``"bank conflicts"``.
    where : SourceLocation
        The place.
    number : float
        What was found, in the unit that `what` names.
    what, why, remedy : str
        What was found, why it matters, and what to write instead.
    weight : float
        By how much it matters: bytes, wavefronts or operations that could be saved.
    """

    kind: str
    where: SourceLocation
    number: float
    what: str
    why: str
    remedy: str
    weight: float = 0.0

    def __str__(self) -> str:
        return f"{self.where.render()}\n  {self.kind}: {self.what}. {self.why}.\n  {self.remedy}."

    def to_dict(self) -> dict[str, Any]:
        """Return it as numbers and text alone."""
        return {
            "kind": self.kind,
            "file": self.where.filename,
            "line": self.where.lineno,
            "column": self.where.col_offset,
            "number": self.number,
            "what": self.what,
            "why": self.why,
            "remedy": self.remedy,
        }


class BranchReport(NamedTuple):
    """A branch or a loop.

    Parameters
    ----------
    where : SourceLocation
        The place of its condition.
    text : str
        The condition, or what the loop runs over.
    is_loop : bool
        Whether it is a loop.
    warps : float
        Of a branch, warps that meet it; of a loop, rounds of warps.
    divergent : float
        Warps with lanes on both sides.
    share : float
        Lanes at work, of those of the warps that execute its sides or rounds.
    depends_on_data : bool
        Whether data decides, so that nothing is known of it.
    """

    where: SourceLocation
    text: str
    is_loop: bool
    warps: float
    divergent: float
    share: float
    depends_on_data: bool


class ArrayTraffic(NamedTuple):
    """An array's memory.

    Parameters
    ----------
    name : str
        The parameter.
    nbytes : int
        Bytes of the array.
    read_bytes, written_bytes : float
        Least number of bytes that device memory moves. Each sector of 32 bytes that the launch
        writes counts once, and so does each pair of sectors that it reads from.
    requested_bytes : float
        Bytes of the sectors of all requests that read it.
    block_reads : float
        How often a block requests a sector that it reads, on average.
    """

    name: str
    nbytes: int
    read_bytes: float
    written_bytes: float
    requested_bytes: float
    block_reads: float


@dataclass(frozen=True, eq=False)
class Explanation(Shown):
    """Explanation of a launch that was not run. Made by ``kernel.explain(…)``.

    Parameters
    ----------
    kernel, signature, arch : str
        What is explained, and for which architecture.
    block_dim, grid_dim : tuple of int
        The launch.
    accesses : tuple of AccessReport
        Accesses of arrays, in the order of the source.
    branches : tuple of BranchReport
        Branches and loops.
    arrays : tuple of ArrayTraffic
        Arrays among the arguments.
    operations : mapping
        Operations on floats of all threads, by dtype and name (``("float32", "add")``); those on
        complex numbers have the dtype of their parts (``("float32", "complex mul")``).
    lanes_at_work : float
        Lanes at work, of those of the warps that execute a statement.
    formulas : Formulas
        Arithmetic and memory as formulas of extents and parameters.
    roofline : Roofline
        What bounds the launch from below on the device.
    occupancy : Occupancy or None
        What a multiprocessor holds at once and the limiter; ``None`` where the kernel's registers
        are not known, since there is no assembler.
    findings : tuple of Finding
        What to know, what matters most first.
    passes : tuple of PassRemark or None
        What the optimizing passes of the compiler did; ``None`` where the kernel was not compiled.
    assumed : mapping
        What was not given, and what was taken instead.
    left_out : tuple of str
        Intrinsics with accesses that are not counted.
    is_sampled : bool
        Whether some blocks or rounds of loops stand for all.
    """

    kernel: str
    signature: str
    arch: str
    block_dim: Dim3
    grid_dim: Dim3
    accesses: tuple[AccessReport, ...]
    branches: tuple[BranchReport, ...]
    arrays: tuple[ArrayTraffic, ...]
    operations: Mapping[tuple[str, str], float]
    lanes_at_work: float
    formulas: Formulas
    roofline: Roofline
    occupancy: Occupancy | None
    findings: tuple[Finding, ...]
    passes: tuple[PassRemark, ...] | None
    assumed: Mapping[str, Any]
    left_out: tuple[str, ...]
    is_sampled: bool

    def __post_init__(self) -> None:
        for name in ("accesses", "findings"):
            object.__setattr__(self, name, ShownTuple(getattr(self, name)))

    @property
    def dram_read_bytes(self) -> float:
        """Bytes that device memory has to give at least, with caches that are empty at first."""
        return sum(array.read_bytes for array in self.arrays)

    @property
    def dram_written_bytes(self) -> float:
        """Bytes that device memory has to take at least."""
        return sum(array.written_bytes for array in self.arrays)

    @property
    def global_accesses(self) -> tuple[AccessReport, ...]:
        """Accesses of global memory."""
        return ShownTuple(each for each in self.accesses if each.space == "global")

    @property
    def shared_accesses(self) -> tuple[AccessReport, ...]:
        """Accesses of shared memory."""
        return ShownTuple(each for each in self.accesses if each.space == "shared")

    def flops(self, dtype: str | None = None) -> float:
        """Return the additions, subtractions, multiplications and divisions of floats.

        A fused multiply-add counts two; functions such as ``sqrt`` and powers are not counted. Of
        complex numbers it is those of their parts.
        """
        return sum(
            FLOPS.get(name, 0) * count
            for (of, name), count in self.operations.items()
            if dtype in (None, of)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as numbers and text alone."""
        return {
            "kernel": self.kernel,
            "signature": self.signature,
            "arch": self.arch,
            "block_dim": list(self.block_dim),
            "grid_dim": list(self.grid_dim),
            "accesses": [each.to_dict() for each in self.accesses],
            "branches": [{**each._asdict(), "where": str(each.where)} for each in self.branches],
            "arrays": [each._asdict() for each in self.arrays],
            "operations": {" ".join(key): count for key, count in self.operations.items()},
            "flops": self.flops(),
            "dram_read_bytes": self.dram_read_bytes,
            "dram_written_bytes": self.dram_written_bytes,
            "lanes_at_work": self.lanes_at_work,
            "formulas": {
                "flops": {dtype: str(each) for dtype, each in self.formulas.flops.items()},
                "requested_bytes": str(self.formulas.requested_bytes),
            },
            "roofline": self.roofline.to_dict(),
            "occupancy": None if self.occupancy is None else _occupancy(self.occupancy),
            "findings": [each.to_dict() for each in self.findings],
            "passes": None if self.passes is None else [each.to_dict() for each in self.passes],
            "assumed": {name: str(value) for name, value in self.assumed.items()},
            "left_out": list(self.left_out),
            "is_sampled": self.is_sampled,
        }

    def __str__(self) -> str:
        from kerneldsl.explain.text import explanation_text

        return explanation_text(self)

    def __repr__(self) -> str:
        count = len(self.findings)
        findings = format_count(count, "finding")
        return f"<explanation of {self.kernel}, block {self.block_dim}: {findings}>"


def _occupancy(held: Occupancy) -> dict[str, Any]:
    return {
        "registers": held.kernel.registers,
        "static_shared_bytes": held.kernel.static_shared_bytes,
        "active_blocks": held.active_blocks,
        "fraction": held.fraction,
        "limiters": list(held.limiters),
    }
