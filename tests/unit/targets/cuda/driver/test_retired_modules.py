"""Modules of kernels that are garbage: a finalizer notes them, ordinary code unloads them."""

from __future__ import annotations

import gc
import threading
from collections import deque
from typing import Any

import pytest

from targets.cuda.driver import captures, functions, retired_modules
from targets.cuda.driver.driver import Driver
from targets.cuda.driver.fork import fork_guard
from tests.support.driver_bindings import FakeBindings
from tests.unit.targets.cuda.device import test_executable

_NOT_READY = 600
_WAITING = "cuCtxSynchronize"


@pytest.fixture(autouse=True)
def nothing_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retired_modules, "_retired", deque())
    monkeypatch.setattr(retired_modules, "_marked", deque())


@pytest.fixture
def api() -> FakeBindings:
    return FakeBindings()


@pytest.fixture
def driver(api: FakeBindings) -> Driver:
    return Driver(api)


def unloaded(api: FakeBindings) -> int:
    return api.names().count("cuModuleUnload")


def retire(driver: Driver, api: FakeBindings) -> None:
    function = functions.load(driver, 0, "", "k")
    api.calls.clear()
    retired_modules.retire(driver, function)


def test_a_finalizer_calls_nothing_and_the_next_load_unloads(
    api: FakeBindings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(test_executable, "_driver", None)
    executable = test_executable._executable(api, debug=False)
    executable.launch(test_executable._CONFIG, test_executable._PACKED)
    api.calls.clear()
    del executable
    gc.collect()
    assert api.calls == []
    kept = test_executable._executable(api, debug=False)
    names = api.names()
    assert _WAITING not in names
    order = [names.index(n) for n in ("cuCtxRecordEvent", "cuModuleUnload", "cuModuleLoadDataEx")]
    assert order == sorted(order)
    assert unloaded(api) == 1
    del kept


def test_what_may_still_run_stays(api: FakeBindings, driver: Driver) -> None:
    retire(driver, api)
    api.answers["cuEventQuery"] = (_NOT_READY,)
    for _ in range(3):
        retired_modules.unload_finished()
    assert unloaded(api) == 0
    assert api.names().count("cuCtxRecordEvent") == 1
    del api.answers["cuEventQuery"]
    for _ in range(3):
        retired_modules.unload_finished()
    assert unloaded(api) == 1
    assert _WAITING not in api.names()


@pytest.mark.parametrize("begins", ["before the mark", "after the mark"])
def test_nothing_is_done_while_a_graph_is_recorded(
    api: FakeBindings, driver: Driver, begins: str
) -> None:
    retire(driver, api)
    if begins == "after the mark":
        api.answers["cuEventQuery"] = (_NOT_READY,)
        retired_modules.unload_finished()
        del api.answers["cuEventQuery"]
        api.calls.clear()
    captures.begin(0)
    try:
        retired_modules.unload_finished()
        assert api.calls == []
    finally:
        captures.end(0)
    retired_modules.unload_finished()
    assert unloaded(api) == 1


def test_a_driver_that_cannot_mark_everything_is_waited_for(
    api: FakeBindings, driver: Driver
) -> None:
    retire(driver, api)
    api.answers["cuCtxRecordEvent"] = (801,)
    retired_modules.unload_finished()
    names = api.names()
    assert names.index(_WAITING) < names.index("cuModuleUnload")


def test_a_forked_child_neither_notes_nor_unloads(
    api: FakeBindings, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    retire(driver, api)
    monkeypatch.setattr(fork_guard, "has_forked", True)
    retired_modules.retire(driver, functions.LoadedFunction("k", "k", 0, 1, 2, Any))
    retired_modules.unload_finished()
    assert api.calls == []
    assert len(retired_modules._retired) == 1


def test_threads_that_unload_at_once_unload_each_module_once(
    api: FakeBindings, driver: Driver
) -> None:
    count = 200
    function = functions.load(driver, 0, "", "k")
    api.calls.clear()
    for _ in range(count):
        retired_modules.retire(driver, function)
    threads = [threading.Thread(target=retired_modules.unload_finished) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    retired_modules.unload_finished()
    assert unloaded(api) == count
