"""Run the passes of the pipeline on the region IR of a kernel."""

from __future__ import annotations

from collections.abc import Mapping

from kerneldsl.contract import Specialization
from kerneldsl.ir.operations import Function
from kerneldsl.ir.ranges import Interval
from kerneldsl.ir.typing import Typing
from targets.cuda.compile.numba_device import descriptor
from targets.cuda.compile.pipeline import Known, Pipeline, Stage

__all__ = ["optimize"]


def optimize(
    function: Function,
    specialization: Specialization,
    intervals: Mapping[str, Interval],
    pipeline: Pipeline,
) -> None:
    """Rewrite a kernel; `intervals` are those of operations by their names."""
    if specialization.options.debug:
        return
    typing = Typing.of(descriptor().typing_context)
    known = Known(intervals, typing, has_tiles=specialization.traits.uses_tiles)
    pipeline.run(Stage.REGION, function, known)
