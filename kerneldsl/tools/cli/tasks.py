"""Does the tasks of ``kerneldsl build``, in this process or in several.

A process is forked for each task, so that it has the modules of the package. What it has compiled
is added in the order of the tasks, so the number of processes does not change the result.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from kerneldsl.errors import CompileError, KernelError
from kerneldsl.tools.cli.building import Builder, Part, Task
from kerneldsl.utilities.modules import import_whole

__all__ = ["Progress", "do_tasks", "usable_processors"]

#: Shows a kernel, given with the number of those that were found by now.
Progress = Callable[[str, int], None]


#: Seconds that this process waits for the signal that another one has received.
_SIGNAL_S = 0.5


class _Running(NamedTuple):
    """A process that does a task."""

    number: int
    process: Any
    connection: Connection


def usable_processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def _can_fork() -> bool:
    """Return whether processes can be forked."""
    return "fork" in multiprocessing.get_all_start_methods() and sys.platform == "linux"


def do_tasks(builder: Builder, tasks: Sequence[Task], workers: int, show: Progress) -> None:
    """Do all tasks, so that the builder has what they compile.

    Raises what a task raises, `KeyboardInterrupt` if its process is interrupted, and `CompileError`
    if it ends. The others are ended then.
    """
    if workers == 1 or len(tasks) < 2 or builder.c_library is not None or not _can_fork():
        _run_in_process(tasks, show)
        return
    import_whole("numba")  # each process has it then
    parts: dict[int, Part] = {}
    waiting = list(enumerate(tasks))[::-1]
    running: list[_Running] = []
    found = 0
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                running.append(_start(builder, *waiting.pop()))
            for ready in wait([each.connection for each in running]):
                worker = next(each for each in running if each.connection is ready)
                message = _receive(worker, tasks[worker.number])
                if isinstance(message, Part):
                    parts[worker.number] = message
                    worker.process.join()
                    running.remove(worker)
                elif isinstance(message, int):
                    found += message
                else:
                    show(message, found)
    finally:
        for worker in running:
            worker.process.kill()
            worker.process.join()
    for number in sorted(parts):
        builder.add(parts[number])


def _run_in_process(tasks: Sequence[Task], show: Progress) -> None:
    found = 0
    for task in tasks:
        show(task.label, found)
        jobs = task.jobs()
        found += len(jobs)
        for job in jobs:
            show(job.label, found)
            job.run()


def _start(builder: Builder, number: int, task: Task) -> _Running:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    sys.stdout.flush()
    sys.stderr.flush()
    # A signal in a hook of fork would be lost, with a traceback.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process = context.Process(target=_work, args=(builder, task, theirs, mask), daemon=True)
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    theirs.close()
    return _Running(number, process, ours)


def _work(builder: Builder, task: Task, to_parent: Connection, mask: set[int]) -> None:
    """Do a task, and send its result: numbers of kernels, names of kernels, and a `Part`.

    `mask` are the signals that the process blocks while it does it.
    """
    sys.unraisablehook = _report_unless_interrupted
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        jobs = task.jobs()
        to_parent.send(len(jobs))
        for job in jobs:
            to_parent.send(job.label)
            job.run()
        to_parent.send(builder.part())
    except KernelError as error:
        to_parent.send(error)
    except KeyboardInterrupt:
        to_parent.send(None)


def _report_unless_interrupted(unraisable: Any) -> None:
    """Say nothing of an interrupt in a callback: the parent has it, too, and ends this process."""
    if not isinstance(unraisable.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)


def _receive(worker: _Running, task: Task) -> Part | int | str:
    try:
        message: Part | int | str | KernelError | None = worker.connection.recv()
    except (EOFError, pickle.UnpicklingError) as error:
        worker.process.join()
        status = worker.process.exitcode
        raise CompileError(
            f"the process that compiles {task.label} ended with status {status}",
            value=status,
            limit="Status -9 means that the system has ended it, for instance because memory was "
            "short",
            remedy="Build with fewer processes: --jobs 1",
        ) from error
    if message is None:
        # A terminal interrupts this process, too: in this sleep, if it has not yet.
        time.sleep(_SIGNAL_S)
        raise KeyboardInterrupt
    if isinstance(message, KernelError):
        raise message
    return message
