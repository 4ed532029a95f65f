"""Launches of the target's own pool whose entry is a Python function that notes its steps.

Run as ``python -m tests.unit.targets.cpu.runtime.pool_launches WORKERS``, with as many in
``NUMBA_NUM_THREADS``; ends with status 0 when every step was run once, and in time.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable

from targets.cpu.runtime.native_tables import HEADER_BYTES
from targets.cpu.runtime.threads import threading_layer
from tests.support.processors import allow_any_number_of_threads

__all__ = ["main"]

_ENTRY = ctypes.CFUNCTYPE(
    None, ctypes.POINTER(ctypes.c_int64), *[ctypes.POINTER(ctypes.c_int64)] * 2, ctypes.c_void_p
)
_HEADER = ctypes.create_string_buffer(HEADER_BYTES)
_LAUNCH = ctypes.addressof(_HEADER)


def launch(steps: int, work: Callable[[int], object] = int) -> dict[int, int]:
    """Share a launch that calls `work` with each step; return which thread ran each."""
    ran: list[tuple[int, int]] = []

    def entry(start: object, count: object, stride: object, told: int | None) -> None:
        assert (stride[0], told) == (1, _LAUNCH)  # type: ignore[index]
        first = start[0]  # type: ignore[index]
        for step in range(first, first + count[0]):  # type: ignore[index]
            ran.append((step, threading.get_native_id()))
            work(step)

    compiled = _ENTRY(entry)
    address = ctypes.cast(compiled, ctypes.c_void_p).value
    assert address is not None
    threading_layer().run(address, _LAUNCH, steps, parallel=True)
    times = Counter(step for step, _ in ran)
    assert times == Counter(range(steps)), times
    return dict(ran)


def check_each_step_is_run_once(workers: int) -> None:
    """For fewer and more steps than workers, right after each other and from sleep."""
    for rest in (0.0, 0.002):
        for steps in (*range(2, 2 * workers + 3), 100):
            time.sleep(rest)
            launch(steps)


def check_steps_are_shared(workers: int) -> None:
    """All workers take part in a launch that takes long, and help with what is left.

    They wait for each other, so that each has the time to begin on a busy machine.
    """
    met, begun = threading.Barrier(workers), set[int]()

    def meet(step: int) -> None:
        if threading.get_native_id() not in begun:
            begun.add(threading.get_native_id())
            met.wait(60)

    ran = launch(4 * workers, meet)
    assert len(set(ran.values())) == workers, ran
    are_taken = threading.Event()
    taken: list[int] = []
    was_helped: list[bool] = []

    def hold_up(step: int) -> None:
        if step == 0:
            was_helped.append(are_taken.wait(60))
        else:
            taken.append(step)
            if len(taken) == 3 * workers - 1:
                are_taken.set()

    launch(3 * workers, hold_up)
    assert was_helped == [True], "others take its steps"


def check_many_launch_at_once(workers: int) -> None:
    """A launch beside another one is run all the same, also one within a step of another."""
    failures: list[BaseException] = []

    def repeat() -> None:
        try:
            for steps in range(2, 60):
                launch(steps, lambda step: time.sleep(0) if step % 7 else launch(3))
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            failures.append(error)

    running = [threading.Thread(target=repeat) for _ in range(4)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if failures:
        raise failures[0]
    check_steps_are_shared(workers)


def check_a_child_goes_on(workers: int) -> None:
    """A forked child has threads of its own, also where a launch was running at the fork."""
    inside, go_on = threading.Event(), threading.Event()

    def work(step: int) -> None:
        inside.set()
        go_on.wait(30)

    for is_launching in (False, True):
        other = threading.Thread(target=launch, args=(2 * workers, work))
        if is_launching:
            other.start()
            assert inside.wait(30)
        child = os.fork()
        if child == 0:
            try:
                check_steps_are_shared(workers)
                check_each_step_is_run_once(workers)
                os._exit(0)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        assert status == 0, status
        go_on.set()
        if is_launching:
            other.join()
    check_steps_are_shared(workers)


def main(workers: int) -> None:
    """Run all checks."""
    assert (threading_layer().name, threading_layer().thread_count) == ("native", workers)
    for check in (
        check_each_step_is_run_once,
        check_steps_are_shared,
        check_many_launch_at_once,
        check_a_child_goes_on,
    ):
        check(workers)


if __name__ == "__main__":
    allow_any_number_of_threads()
    main(int(sys.argv[1]))
