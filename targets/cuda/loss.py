"""Which devices are lost, and which launches may have done it.

After some errors (an illegal address, a trap) the driver answers every further call on the device
with the same error until the process ends. :class:`DeviceWatch` remembers the first such error and
what had been launched since the device was last known to be well, so that later calls fail at once
and say why. It knows nothing of a driver; the CUDA target and the null target share it.
"""

from __future__ import annotations

import copy
from collections import deque
from typing import TypeAlias

from kerneldsl.error_history import error_log
from kerneldsl.errors import DeviceLostError, DriverError
from kerneldsl.locks import ForkSafeLock
from kerneldsl.target import Dim3

__all__ = ["DeviceWatch", "LaunchNote", "suspect_lines"]

#: Name, grid, block and stream of a launch; a graph's has neither grid nor block.
LaunchNote: TypeAlias = tuple[str, Dim3 | None, Dim3 | None, int]

#: How many launches are remembered for each device: those in flight are rarely more.
_REMEMBERED = 32


class DeviceWatch:
    """The health of one target's devices.

    Parameters
    ----------
    target : str
        The target's name; device 1 of ``"cuda"`` is called ``cuda:1``.
    """

    def __init__(self, target: str) -> None:
        self._target = target
        self._lock = ForkSafeLock()
        self._launches: dict[int, deque[LaunchNote]] = {}
        #: Lost devices, by index: the first fatal error, and what had been launched before it.
        self.lost: dict[int, tuple[DriverError, tuple[str, ...]]] = {}

    def launches(self, index: int) -> deque[LaunchNote]:
        """The recent launches on a device; whoever launches appends to it, which is atomic."""
        known = self._launches.get(index)
        if known is None:
            with self._lock:
                known = self._launches.setdefault(index, deque(maxlen=_REMEMBERED))
        return known

    def settle(
        self, index: int, finished: tuple[LaunchNote, ...], stream: int | None = None
    ) -> None:
        """Clear launches of suspicion after waiting for them has succeeded.

        Parameters
        ----------
        index : int
            The device.
        finished : tuple
            ``tuple(watch.launches(index))``, taken before the wait began: what another thread
            launched meanwhile stays under suspicion.
        stream : int, optional
            Only those of this stream; without it, all.
        """
        if not finished:
            return
        launches = self.launches(index)
        for note in finished:
            if stream is None or note[3] == stream:
                try:
                    launches.remove(note)
                except (ValueError, IndexError):  # gone already, or another thread launches
                    continue

    def suspects(self, index: int) -> tuple[str, ...]:
        """The launches since the device was last known to be well, in words, newest last."""
        return tuple(_in_words(note) for note in tuple(self.launches(index)))

    def report(self, index: int, error: DriverError) -> None:
        """Note that a device is lost; of several errors the first counts."""
        suspects = self.suspects(index)
        with self._lock:
            # The error's traceback would keep everything alive that its frames refer to.
            self.lost.setdefault(index, (copy.copy(error), suspects))

    def is_lost(self, index: int) -> bool:
        """Whether nothing can use the device any more in this process."""
        return index in self.lost

    def check(self, index: int, doing: str = "") -> None:
        """Raise `DeviceLostError` where the device is lost.

        Parameters
        ----------
        index : int
            The device.
        doing : str
            What was to be done, beginning with a verb.
        """
        if index in self.lost:
            error = self.loss(index, doing)
            raise error from error.__cause__

    def loss(self, index: int, doing: str = "") -> DeviceLostError:
        """The error for a call on a lost device; its cause is what lost it."""
        first, suspects = self.lost[index]
        device = f"{self._target}:{index}"
        error = DeviceLostError(
            f"{device} is lost to this process: {first.what[:1].lower()}{first.what[1:]}",
            code=first.code,
            name=first.name,
            doing=doing,
            device=device,
            suspects=suspects,
            value=first.code,
            limit=f"After {first.name} ({first.code}) a device cannot be used in the same process",
            remedy="Start the process anew; other devices and the CPU can still be used. Launch "
            "with debug=True or KERNELDSL_DEBUG=1 to find a faulty access",
            chain=suspect_lines(suspects),
        )
        error.__cause__ = first
        error_log.record(error)
        return error


def suspect_lines(suspects: tuple[str, ...]) -> tuple[str, ...]:
    """What an error says of the launches that may have done it."""
    if not suspects:
        return ("no launch of kerneldsl was in flight; another library may have done it",)
    return ("launched since the device was last known to be well:", *suspects)


def _in_words(note: LaunchNote) -> str:
    name, grid, block, stream = note
    shape = f" with grid {grid} and block {block}" if grid is not None else ""
    where = f" in stream {stream:#x}" if stream else ""
    return f"{name}{shape}{where}"
