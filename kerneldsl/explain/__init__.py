"""Explanations of kernels by symbolic analysis, without a GPU: ``kernel.explain(…)``.

A kernel's typed regions are interpreted for the threads of a launch, so that requests, sectors and
wavefronts are counted as the hardware would. The same indices as SymPy expressions say why.
``docs/explain.md`` says what is exact and what is not.
"""

from kerneldsl.explain.accesses import AccessReport
from kerneldsl.explain.explanation import ArrayTraffic, BranchReport, Explanation, Finding

__all__ = ["AccessReport", "ArrayTraffic", "BranchReport", "Explanation", "Finding"]
