"""Times of work on CUDA devices by CUPTI's records, through the package cupti-python.

Events measure the time between them in a stream; CUPTI reports when each kernel and copy itself
ran. A timer pushes an external correlation id and removes it again. CUPTI records it with the id of
each call of the driver, and the records of the device have the ids of the calls.

References
----------
CUPTI documentation, "CUPTI Activity API", sections "External Correlation" and "Asynchronous Buffer
Handling"; cupti-python documentation, `activity_register_callbacks`.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from kerneldsl.contract import LaunchTimer, Tracer

__all__ = ["CuptiTimer", "CuptiTracer", "cupti_tracer"]

_log = logging.getLogger("kerneldsl.cuda.cupti")
#: Bytes of a buffer of records, which holds some ten thousand of them.
_BUFFER_BYTES = 8 << 20
#: Records of work on the device, which have a begin and an end.
_WORK = ("CONCURRENT_KERNEL", "MEMCPY", "MEMCPY2", "MEMSET", "GRAPH_TRACE")


class CuptiTracer(Tracer):
    """CUPTI's records of all devices of the process; there is one at a time.

    - `cupti`: ``cupti.cupti``.
    """

    def __init__(self, cupti: ModuleType) -> None:
        self._cupti: Any = cupti
        self._numbers = itertools.count(1)
        #: Work of the device for each call of the driver, by the number of the call's timer.
        self._calls: dict[int, list[int]] = {}
        self._work: dict[int, tuple[int, int]] = {}
        self._enabled: list[Any] = []
        cupti.activity_register_callbacks(lambda: (_BUFFER_BYTES, 0), self._take)
        for name in (*_WORK, "EXTERNAL_CORRELATION"):
            kind = getattr(cupti.ActivityKind, name)
            cupti.activity_enable(kind)
            self._enabled.append(kind)

    def _take(self, records: Iterable[Any]) -> None:
        """Take records from CUPTI, which is free to use them again when this returns."""
        kinds = self._cupti.ActivityKind
        for record in records:
            if record.kind == kinds.EXTERNAL_CORRELATION:
                self._calls.setdefault(record.external_id, []).append(record.correlation_id)
            elif record.kind in self._enabled and record.end:
                known = self._work.get(record.correlation_id, (record.start, record.end))
                self._work[record.correlation_id] = (
                    min(known[0], record.start),
                    max(known[1], record.end),
                )

    def start_timer(self, stream: Any) -> LaunchTimer:
        number = next(self._numbers)
        kind = self._cupti.ExternalCorrelationKind.CUSTOM0
        self._cupti.activity_push_external_correlation_id(kind, number)
        return CuptiTimer(self, number)

    def stop_timer(self) -> None:
        """End what the innermost timer of this thread is of."""
        kind = self._cupti.ExternalCorrelationKind.CUSTOM0
        self._cupti.activity_pop_external_correlation_id(kind)

    def span_of(self, number: int) -> tuple[int, int] | None:
        """Return when the work of a timer began and ended, by CUPTI's clock in ns."""
        spans = [self._work[call] for call in self._calls.get(number, ()) if call in self._work]
        if not spans:
            return None
        return min(begin for begin, _ in spans), max(end for _, end in spans)

    def flush(self) -> None:
        # Without a flag, only complete records are flushed; records of running work come later.
        self._cupti.activity_flush_all(0)

    def close(self) -> None:
        while self._enabled:
            self._cupti.activity_disable(self._enabled.pop())


class CuptiTimer(LaunchTimer):
    """Work that a thread puts on a device, from when this is made until it is stopped."""

    def __init__(self, tracer: CuptiTracer, number: int) -> None:
        self._tracer = tracer
        self._number = number

    def stop(self) -> None:
        self._tracer.stop_timer()

    def elapsed_ns(self) -> int | None:
        span = self._tracer.span_of(self._number)
        return None if span is None else span[1] - span[0]

    def begin_ns_since(self, earlier: LaunchTimer) -> int | None:
        if not isinstance(earlier, CuptiTimer):
            return None
        own, first = (each._tracer.span_of(each._number) for each in (self, earlier))
        return None if own is None or first is None else own[0] - first[0]


def cupti_tracer() -> CuptiTracer | None:
    """Begin to trace; ``None`` where CUPTI is not installed, or does not let us.

    It has one client in a process, and on some machines none but administrators.
    """
    try:
        from cupti import cupti
    except ImportError as error:
        _log.debug("CUPTI is not there: %s", error)
        return None
    try:
        return CuptiTracer(cupti)
    except cupti.cuptiError as error:
        _log.warning("CUPTI refuses, so that events are recorded instead: %s", error)
        return None
