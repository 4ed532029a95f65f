"""Prints of more values than a GPU formats, in kernels that follow numba.cuda's rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kerneldsl.contract.findings import Finding
from kerneldsl.ir.operations import Operation
from kerneldsl.lowering.printing import MOST_ON_GPU, count_values

__all__ = ["long_prints"]


def long_prints(prints: Iterable[Operation]) -> Iterator[Finding]:
    """Yield the prints that have too many values, with the warning."""
    for each in prints:
        count = count_values([operand.type for operand in each.operands])
        if count > MOST_ON_GPU and each.source is not None:
            text = (
                f"CUDA print() cannot print more than {MOST_ON_GPU} items. The raw format string "
                f"will be emitted by the kernel instead. This call has {count}. Print them in "
                "several calls. On a CPU there is no limit."
            )
            yield Finding(each.source, text)
