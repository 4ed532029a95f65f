"""Options of tuning one launch."""

from __future__ import annotations

from collections.abc import Callable

from kerneldsl.launch.tuning_policy import TuningPolicy
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["TuningOptions"]


@dataclass(frozen=True)
class TuningOptions:
    """Options of tuning a launch; the parameters of :meth:`kerneldsl.Launch.tune`."""

    #: Budget, state of the cache, reference and tolerance.
    policy: TuningPolicy
    #: Called before each launch that is timed. What is measured with it is not recorded, since its
    #: effects are unknown.
    before: Callable[[], object] | None = None
    #: Told how far it is, in a line of text.
    tell: Callable[[str], object] | None = None
    #: Whether a terminal shows it where nobody is told.
    shows_progress: bool = True
    #: How many compile at the same time; by default as many as there are cores.
    processes: int | None = None
