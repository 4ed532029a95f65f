"""One process of the first-touch stress: threads that all need everything for the first time.

Run as ``python -m tests.stress.first_touch TARGETS ROUNDS THREADS``, with targets as in
``cpu,null``, which the threads take in turn. Before the first round nothing of kerneldsl is
imported. In each round every thread initializes, allocates, launches a kernel that none has
compiled yet, makes errors, and reads devices, errors and statistics, all at once. Ends with status
0 when every result was right and what was counted is exact.
"""

from __future__ import annotations

import gc
import random
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from typing import Any

__all__ = ["main"]

_SOURCE = """
import numpy as np
import kerneldsl as kd

@kd.kernel
def kernel(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i] * {factor} + i
"""
_SIZES = (1, 63, 1000, 20_001)
#: More than any machine has, and than the addresses of a process.
_ABSURD_BYTES = 1 << 55
#: Of each thread in a round: on arrays of the device, on host arrays, in a stream.
_LAUNCHES = 3
#: Of each thread in a round: errors as a driver's answer makes them, which the history counts.
_STREAM_ERRORS = 3
#: How many of the threads run out of memory, which has Python's collector run through everything.
_MEMORY_ERRORS = 1 / 8
#: The first device that a thread was given, by its target.
_devices: dict[str, Any] = {}


class Round:
    """One round: what its threads share.

    Parameters
    ----------
    number : int
        Which one; its kernel multiplies by this plus 2.
    targets : tuple of str
        Where the threads run.
    """

    def __init__(self, number: int, targets: tuple[str, ...]) -> None:
        self.number = number
        self.targets = targets
        self.factor = number + 2
        self._lock = threading.Lock()
        self._kernel: Any = None

    def kernel(self) -> Any:
        """The round's kernel, made by the first thread that asks."""
        with self._lock:
            if self._kernel is None:
                from tests.support.source import exec_source

                text = _SOURCE.format(factor=self.factor)
                self._kernel = exec_source(text, f"first_touch_{self.number}")["kernel"]
            return self._kernel

    def run(self, thread: int) -> None:
        """Everything that one thread does."""
        import numpy as np

        import kerneldsl as kd

        order = random.Random(self.number * 1000 + thread)
        target = self.targets[thread % len(self.targets)]
        with kd.use(target):
            steps: list[Callable[[str, random.Random], None]] = [
                self._launch_on_device,
                self._launch_on_host,
                self._launch_in_stream,
                self._make_errors,
                self._read,
            ]
            order.shuffle(steps)
            for step in steps:
                step(target, order)
            kept = kd.zeros(order.choice(_SIZES), np.int32)
            assert not kept.copy_to_host().any()
            assert kept.device is _devices.setdefault(target, kept.device)

    def _check(self, target: str, x: Any, out: Any) -> None:
        import numpy as np

        if target == "null":
            return  # computes nothing
        expected = x * self.factor + np.arange(x.size)
        if not np.array_equal(out, expected):
            wrong = int(np.argmax(out != expected))
            raise AssertionError(f"{target}: out[{wrong}] is {out[wrong]}, not {expected[wrong]}")

    def _arrays(self, order: random.Random) -> tuple[Any, Any]:
        import numpy as np

        size = order.choice(_SIZES)
        return np.arange(size) % 1013 + order.randrange(99), np.full(size, -1)

    def _launch_on_device(self, target: str, order: random.Random) -> None:
        import kerneldsl as kd

        x, out = self._arrays(order)
        ours, theirs = kd.to_device(x), kd.to_device(out)
        self.kernel().forall(x.size)(ours, theirs)
        self._check(target, x, theirs.copy_to_host())

    def _launch_on_host(self, target: str, order: random.Random) -> None:
        x, out = self._arrays(order)
        self.kernel()[-(-x.size // 64), 64](x, out)
        self._check(target, x, out)

    def _launch_in_stream(self, target: str, order: random.Random) -> None:
        import kerneldsl as kd

        x, out = self._arrays(order)
        with kd.Stream() as stream:
            ours, theirs = kd.to_device(x), kd.to_device(out)
            begin = stream.record(kd.Event())
            self.kernel().forall(x.size)(ours, theirs)
            end = stream.record(kd.Event())
            end.synchronize()
            assert begin.elapsed_ms(end) >= 0
            self._check(target, x, theirs.copy_to_host())
        stream.close()

    def _make_errors(self, target: str, order: random.Random) -> None:
        import kerneldsl as kd
        from targets import null

        for _ in range(_STREAM_ERRORS):
            assert null.fault("stream").category == "stream"
        if order.random() < _MEMORY_ERRORS:
            self._ask_for_too_much(target)
        try:
            self.kernel()[1, 1 << 20](*self._arrays(order))
        except (kd.LaunchConfigError, kd.ResourceLimitError):
            pass
        else:
            raise AssertionError(f"{target} took a block of {1 << 20} threads")

    def _ask_for_too_much(self, target: str) -> None:
        import numpy as np

        import kerneldsl as kd

        try:
            kd.empty(_ABSURD_BYTES, np.uint8)
        except kd.OutOfMemoryError as error:
            message = str(error)
        else:
            raise AssertionError(f"{target} gave {_ABSURD_BYTES} bytes")
        assert str(_ABSURD_BYTES) in message, message

    def _read(self, target: str, order: random.Random) -> None:
        import kerneldsl as kd

        assert any(str(d).partition(":")[0] == target for d in kd.devices(target))
        assert str(kd.current_target()).partition(":")[0] == target
        assert kd.memory_stats().in_use_bytes >= 0
        assert kd.stats().launches >= 0
        counted = sum(kd.error_log.counts().values())
        assert sum(entry.count for entry in kd.error_log.entries()) >= min(counted, 1)


def _run_round(current: Round, threads: int) -> None:
    gate = threading.Barrier(threads)
    failures: list[str] = []

    def work(thread: int) -> None:
        try:
            gate.wait()
            current.run(thread)
        except BaseException:  # noqa: BLE001 - reported by the main thread
            failures.append(f"round {current.number}, thread {thread}\n{traceback.format_exc()}")

    running = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if failures:
        raise AssertionError(failures[0])


def _check_counts(targets: tuple[str, ...], rounds: int, threads: int) -> None:
    """What the whole process counted is what its threads did."""
    import kerneldsl as kd

    share = Counter(targets[n % len(targets)] for n in range(threads))
    launched = {
        str(device.device).partition(":")[0]: device.launches for device in kd.stats().devices
    }
    for target, count in share.items():
        expected = count * rounds * _LAUNCHES
        assert launched[target] == expected, (target, launched, expected)
    errors = kd.error_log.counts()["stream"]
    assert errors == threads * rounds * _STREAM_ERRORS, errors
    gc.collect()
    for target in share:
        with kd.use(target):
            kd.synchronize()
            memory = kd.memory_stats()
            assert memory.in_use_bytes == 0, memory
            assert memory.allocation_count == memory.free_count, memory


def main(arguments: list[str]) -> None:
    """Run the rounds of one process."""
    targets = tuple(arguments[0].split(","))
    rounds, threads = int(arguments[1]), int(arguments[2])
    assert "kerneldsl" not in sys.modules
    for number in range(rounds):
        _run_round(Round(number, targets), threads)
    _check_counts(targets, rounds, threads)
    print("right")


if __name__ == "__main__":
    main(sys.argv[1:])
