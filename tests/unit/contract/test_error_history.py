"""The history of errors: bounded, exact under threads, silent about nothing."""

from __future__ import annotations

import gc
import io
import json
import os
import threading
import weakref
from pathlib import Path

import pytest

import kerneldsl as kd
from kerneldsl.contract.error_history import CATEGORIES, ErrorLog, error_log
from kerneldsl.errors import (
    CompileError,
    DeviceLostError,
    DriverError,
    GraphError,
    KernelError,
    LaunchError,
    OutOfMemoryError,
    StreamError,
    TargetUnavailableError,
)


def _launch_error(number: int = 0, **fields: object) -> LaunchError:
    return LaunchError(f"Could not launch {number}", code=701, name="CUDA_ERROR_X", **fields)


def _lost(device: str = "cuda:0") -> DeviceLostError:
    return DeviceLostError(f"{device} is lost", code=700, name="CUDA_ERROR_Y", device=device)


@pytest.fixture
def log() -> ErrorLog:
    return ErrorLog()


def test_it_is_reached_from_the_package() -> None:
    assert kd.error_log is error_log
    assert isinstance(kd.error_log, kd.ErrorLog)


def test_an_entry_holds_the_fields(log: ErrorLog) -> None:
    log.record(_launch_error(7, doing="launch 7", device="cuda:1", remedy="Use less"))
    (entry,) = log.entries()
    assert (entry.category, entry.error, entry.code) == ("launch", "LaunchError", 701)
    assert (entry.name, entry.device, entry.doing) == ("CUDA_ERROR_X", "cuda:1", "launch 7")
    assert entry.message == "Could not launch 7. Use less."
    assert entry.place.startswith(f"{__file__}:")
    assert entry.thread == threading.current_thread().name
    assert entry.time.endswith("+00:00")
    assert (entry.count, entry.was_swallowed, entry.is_fatal) == (1, False, False)


def test_the_oldest_go_first_and_still_count() -> None:
    log = ErrorLog(size=10)
    for number in range(25):
        log.record(_launch_error(number))
    assert [e.message for e in log] == [f"Could not launch {n}." for n in range(15, 25)]
    assert log.counts()["launch"] == 25
    assert set(log.counts()) == set(CATEGORIES)


def test_one_error_is_written_down_once(log: ErrorLog) -> None:
    error = _launch_error()
    log.record(error)
    log.record(error)
    log.record(_launch_error())  # the same words, another error
    assert len(log) == 2
    assert log.counts()["launch"] == 2


def test_a_swallowed_error_is_marked_also_afterwards(log: ErrorLog) -> None:
    error = _launch_error()
    log.record(error)
    log.record(error, was_swallowed=True)
    log.record(_launch_error(), was_swallowed=True)
    assert [entry.was_swallowed for entry in log] == [True, True]


def test_calls_on_a_lost_device_are_counted_for_each_place(log: ErrorLog) -> None:
    for _ in range(100):
        log.record(_lost())
    for _ in range(3):
        log.record(_lost())  # another line
    log.record(_lost("cuda:1"))
    assert [entry.count for entry in log] == [100, 3, 1]
    assert log.counts()["device"] == 104


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (TargetUnavailableError("no"), "initialization"),
        (CompileError("no"), "compile"),
        (GraphError("no"), "stream"),
        (KernelError("no"), "system"),
        (StreamError("no", code=400, name="X"), "stream"),
        (OutOfMemoryError("no", code=2, name="X"), "memory"),
    ],
)
def test_other_errors_have_a_category_too(log: ErrorLog, error: KernelError, category: str) -> None:
    log.record(error)
    assert log.entries()[0].category == category
    assert log.counts()[category] == 1


def test_an_error_is_not_kept_alive(log: ErrorLog) -> None:
    error = _launch_error()
    reference = weakref.ref(error)
    log.record(error)
    del error
    gc.collect()
    assert reference() is None
    assert len(log) == 1


def test_clearing_forgets_everything(log: ErrorLog) -> None:
    log.record(_launch_error())
    log.clear()
    assert len(log) == 0
    assert not any(log.counts().values())
    assert repr(log) == "no errors"
    assert log  # an empty history is still there


def test_export_is_one_object_a_line(log: ErrorLog, tmp_path: Path) -> None:
    log.record(_launch_error(1, doing="größer"))
    log.record(_lost())
    path = tmp_path / "errors.jsonl"
    assert log.export(path) == 2
    read = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert read == [entry.to_dict() for entry in log]
    assert read[0]["doing"] == "größer"
    assert "_error" not in read[0]
    stream = io.StringIO()
    log.export(stream)
    assert stream.getvalue() == path.read_text(encoding="utf-8")


def test_it_is_shown_as_a_table(log: ErrorLog) -> None:
    log.record(_launch_error(1, doing="<b>launch</b>", device="cuda:1"))
    shown = repr(log)
    assert shown.startswith("1 error: launch 1\n")
    assert "CUDA_ERROR_X" in shown
    assert "cuda:1" in shown
    page = log._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page


def test_sixteen_threads_lose_nothing(log: ErrorLog) -> None:
    rounds, threads = 200, 16
    ready = threading.Barrier(threads)

    def work(number: int) -> None:
        ready.wait()
        for step in range(rounds):
            log.record(_launch_error(number * rounds + step))
            if step % 50 == 0:
                log.entries()
                log.counts()

    running = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert log.counts()["launch"] == rounds * threads
    assert len(log) == 1000


def test_a_finalizer_may_write_while_the_same_thread_reads(log: ErrorLog) -> None:
    # As when the collector runs in the middle of a reader that holds the lock.
    with log._lock:
        log.record(_launch_error(), was_swallowed=True)
    assert len(log) == 1
    assert log.entries()[0].was_swallowed


def test_driver_errors_alone_need_no_user_code() -> None:
    log = ErrorLog(size=1)
    log.record(DriverError("x", code=1, name="N"))
    assert log.entries()[0].place


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_reads_and_writes_on() -> None:
    reader, writer = os.pipe()
    with error_log._lock:  # as another thread may hold it
        child = os.fork()
        if child == 0:
            before = error_log.counts()["launch"]
            error_log.record(_launch_error())
            os.write(writer, b"one" if error_log.counts()["launch"] == before + 1 else b"other")
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 10) == b"one"
