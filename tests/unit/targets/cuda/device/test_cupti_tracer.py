"""CUPTI's records become the times of launches; CUPTI itself is played."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import IntEnum
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from targets.cuda.device.cupti_tracer import CuptiTimer, CuptiTracer, cupti_tracer

Kind = IntEnum(
    "Kind",
    ["CONCURRENT_KERNEL", "MEMCPY", "MEMCPY2", "MEMSET", "GRAPH_TRACE", "EXTERNAL_CORRELATION"],
)


class PlayedCupti(ModuleType):
    """Correlates calls with the ids that are pushed, and gives records when it is flushed."""

    ActivityKind = Kind
    ExternalCorrelationKind = SimpleNamespace(CUSTOM0=7)

    class cuptiError(Exception):
        """An error of CUPTI's."""

    def __init__(self) -> None:
        super().__init__("cupti.cupti")
        self.cupti = self
        self.enabled: set[int] = set()
        self.ids: list[int] = []
        self.records: list[Any] = []
        self.calls = 100
        self.complete: Callable[[list[Any]], None] = lambda records: None
        self.refuses = False

    def activity_register_callbacks(self, request: Any, complete: Any) -> None:
        assert request() == (8 << 20, 0)
        self.complete = complete

    def activity_enable(self, kind: int) -> None:
        if self.refuses:
            raise self.cuptiError("no privileges")
        self.enabled.add(kind)

    def activity_disable(self, kind: int) -> None:
        self.enabled.remove(kind)

    def activity_push_external_correlation_id(self, kind: int, number: int) -> None:
        assert kind == 7
        self.ids.append(number)

    def activity_pop_external_correlation_id(self, kind: int) -> int:
        assert kind == 7
        return self.ids.pop()

    def activity_flush_all(self, flag: int) -> None:
        records, self.records = self.records, []
        self.complete(records)

    def work(self, kind: Kind, start: int, end: int) -> None:
        self.calls += 1
        if self.ids:
            self.records.append(
                SimpleNamespace(
                    kind=Kind.EXTERNAL_CORRELATION,
                    external_id=self.ids[-1],
                    correlation_id=self.calls,
                )
            )
        self.records.append(
            SimpleNamespace(kind=kind, correlation_id=self.calls, start=start, end=end)
        )


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> PlayedCupti:
    made = PlayedCupti()
    monkeypatch.setitem(sys.modules, "cupti", made)
    monkeypatch.setitem(sys.modules, "cupti.cupti", made)
    return made


@pytest.fixture
def tracer(played: PlayedCupti) -> CuptiTracer:
    found = cupti_tracer()
    assert found is not None
    return found


def timed(tracer: CuptiTracer, run: Callable[[], None]) -> CuptiTimer:
    timer = tracer.start_timer(None)
    assert isinstance(timer, CuptiTimer)
    run()
    timer.stop()
    return timer


def test_a_kernel_has_the_time_of_its_record(played: PlayedCupti, tracer: CuptiTracer) -> None:
    played.work(Kind.CONCURRENT_KERNEL, 1, 2)  # nobody's
    first = timed(tracer, lambda: played.work(Kind.CONCURRENT_KERNEL, 1000, 1500))
    second = timed(tracer, lambda: played.work(Kind.MEMCPY, 2000, 2100))
    assert played.ids == []
    assert first.elapsed_ns() is None
    tracer.flush()
    assert (first.elapsed_ns(), second.elapsed_ns()) == (500, 100)
    assert second.begin_ns_since(first) == 1000
    assert first.begin_ns_since(first) == 0


def test_several_pieces_are_one_time(played: PlayedCupti, tracer: CuptiTracer) -> None:
    def pieces() -> None:
        played.work(Kind.MEMCPY, 100, 150)
        played.work(Kind.MEMCPY, 200, 260)

    timer = timed(tracer, pieces)
    tracer.flush()
    assert timer.elapsed_ns() == 160


def test_what_did_nothing_on_the_device_has_no_time(tracer: CuptiTracer) -> None:
    timer = timed(tracer, lambda: None)
    tracer.flush()
    assert timer.elapsed_ns() is None
    assert timer.begin_ns_since(timer) is None


def test_what_is_enabled_is_disabled_at_the_end(played: PlayedCupti, tracer: CuptiTracer) -> None:
    timer = timed(tracer, lambda: played.work(Kind.MEMSET, 10, 30))
    tracer.flush()
    assert played.enabled == set(Kind)
    tracer.close()
    assert played.enabled == set()
    assert timer.elapsed_ns() == 20


def test_without_cupti_or_its_leave_there_is_no_tracer(
    played: PlayedCupti, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    played.refuses = True
    assert cupti_tracer() is None
    assert "no privileges" in caplog.text
    monkeypatch.setitem(sys.modules, "cupti", None)
    assert cupti_tracer() is None
