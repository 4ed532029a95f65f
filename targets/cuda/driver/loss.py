"""Lost devices, and the launches that are suspected.

After some errors the driver answers every further call with the same error until the process ends.
A kernel that failed while it ran affects all devices, a fault of the hardware one device.
:mod:`~targets.cuda.driver.codes` has the codes of both, with reasons. :class:`DeviceWatch`
remembers the first such error, and what was launched since the devices were last known to work. So
later calls fail at once and name the cause. It does not use a driver; the CUDA target and the null
target share it.
"""

from __future__ import annotations

import copy
from collections import Counter, deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

from kerneldsl.contract import Dim3
from kerneldsl.contract.error_history import error_log
from kerneldsl.errors import DeviceLostError
from kerneldsl.utilities.locks import ForkSafeLock

if TYPE_CHECKING:
    from kerneldsl.errors import DriverError

__all__ = ["DeviceWatch", "LaunchNote", "suspect_lines"]

#: A kernel's name, or those of a graph's kernels; grid and block, which a graph has not; stream.
LaunchNote: TypeAlias = tuple[str | tuple[str, ...], Dim3 | None, Dim3 | None, int]

#: Launches that are remembered for each device. If more are in flight, the oldest are forgotten,
#: and then no kernel can be excluded as the cause.
_REMEMBERED = 128

#: The numbers that name the default stream.
_DEFAULT_STREAMS = (0, 1)

#: Most suspects that a message lists.
_LISTED = 16


class _Loss:
    """Cause of the loss of a device, or of all of them."""

    def __init__(self, index: int | None, error: DriverError) -> None:
        #: The device that answered with the error, if it is known.
        self.index = index
        self.error = error


class DeviceWatch:
    """The health of one target's devices.

    `target` is its name; device 1 of ``"cuda"`` is called ``cuda:1``.
    """

    def __init__(self, target: str) -> None:
        self._target = target
        self._lock = ForkSafeLock()
        self._launches: dict[int, deque[LaunchNote]] = {}
        #: Devices with old launches that were forgotten while they may still have been running.
        self._has_forgotten: set[int] = set()
        #: Lost devices by index; the error that lost all of them is under ``None``.
        self.lost: dict[int | None, _Loss] = {}
        #: Devices, or ``None`` for the process, with a loss that is not reported yet.
        self._unseen: set[int | None] = set()

    # ---------------------------------------------------------------- launches

    def launches(self, index: int) -> deque[LaunchNote]:
        """Return the recent launches on a device; appending to it, as launchers do, is atomic."""
        known = self._launches.get(index)
        if known is None:
            with self._lock:
                known = self._launches.setdefault(index, deque(maxlen=_REMEMBERED))
        return known

    def in_flight(self, index: int) -> tuple[LaunchNote, ...]:
        """Return the launches as they are now, oldest first; for `mark_finished` after a wait."""
        launches = self.launches(index)
        # Copied first: making a tuple of a deque can run finalizers, which may change it.
        return tuple(launches.copy()) if launches else ()

    def mark_finished(
        self, index: int, finished: tuple[LaunchNote, ...], stream: int | None = None
    ) -> None:
        """Clear launches of suspicion after waiting for them has succeeded.

        `finished` is what `in_flight` gave before the wait began: what another thread launched
        meanwhile stays under suspicion. With a stream, only its launches are cleared.
        """
        if not finished:
            return
        launches = self.launches(index)
        if len(launches) == _REMEMBERED:
            self._has_forgotten.add(index)
        elif stream is None:  # what had been forgotten is eldest, so it has finished too
            self._has_forgotten.discard(index)
        for note in finished:
            if stream is None or note[3] == stream:
                try:
                    launches.remove(note)
                except (ValueError, IndexError):  # gone already, or another thread launches
                    continue

    def suspects(self, index: int | None = None) -> tuple[str, ...]:
        """Return launches since devices were last known to be well, in words, newest last."""
        return tuple(
            self._in_words(note, each, count)
            for each in self._devices(index)
            for note, count in _counted(self.in_flight(each))
        )

    def _kernels(self, index: int | None) -> frozenset[str] | None:
        """Return the suspects' kernels by name; ``None`` where some have been forgotten."""
        found: set[str] = set()
        for each in self._devices(index):
            notes = self.in_flight(each)
            if len(notes) == _REMEMBERED or each in self._has_forgotten:
                return None
            for name, *_ in notes:
                found.update((name,) if isinstance(name, str) else name)
        return frozenset(found)

    def _devices(self, index: int | None) -> Iterable[int]:
        if index is not None:
            return (index,)
        with self._lock:
            return sorted(self._launches)

    def _in_words(self, note: LaunchNote, index: int, count: int) -> str:
        name, grid, block, stream = note
        what = name if isinstance(name, str) else f"a graph of {', '.join(name) or 'copies'}"
        shape = f" with grid {grid} and block {block}" if grid is not None else ""
        where = f" in stream {stream:#x}" if stream not in _DEFAULT_STREAMS else ""
        often = f", {count} times" if count > 1 else ""
        return f"{what}{shape}{where} on {self._target}:{index}{often}"

    # ---------------------------------------------------------------- loss

    def report(self, index: int | None, error: DriverError) -> None:
        """Note what a fatal error takes away; of several errors the first counts.

        If it is not known which device answered, only an error that takes all of them away is
        noted.
        """
        # The error's traceback would keep everything alive that its frames refer to.
        loss = _Loss(index, copy.copy(error))
        with self._lock:
            if error.loses_process:
                self.lost.setdefault(None, loss)
            elif index is not None:
                self.lost.setdefault(index, loss)

    def is_lost(self, index: int | None) -> bool:
        """Return whether nothing can use a device any more in this process.

        Without a device: whether nothing can use any.
        """
        return None in self.lost or index in self.lost

    def suppress(self, index: int | None, error: DriverError) -> None:
        """Note that an error was not reported, that may have been the first.

        The next call on the device is then one that must be seen, not gone round.
        """
        if error.is_fatal and getattr(error, "is_news", True):
            self._unseen.add(None if error.loses_process else index)

    def check(self, index: int, doing: str = "") -> None:
        """Raise `DeviceLostError` where the device is lost."""
        if self.is_lost(index):
            error = self.loss(index, doing)
            raise error from error.__cause__

    def loss(self, index: int | None, doing: str = "") -> DeviceLostError:
        """Return the error for a call on a lost device; its cause is what lost it.

        `doing` begins with a verb.
        """
        found = self.lost.get(index) or self.lost[None]
        first = found.error
        origin = None if found.index is None else f"{self._target}:{found.index}"
        device = origin if index is None else f"{self._target}:{index}"
        since = f", because {origin} failed" if origin not in (None, device) else ""
        scope = None if first.loses_process else found.index
        # Looked up now: another thread may have started its launch before the loss, and noted it
        # a moment later. Nothing is launched any more.
        suspects = self.suspects(scope)
        gone = f"no device of {self._target} can" if scope is None else f"{device} cannot"
        error = DeviceLostError(
            f"{device or f'every device of {self._target}'} is lost to this process{since}: "
            f"{first.what[:1].lower()}{first.what[1:]}",
            code=first.code,
            name=first.name,
            doing=doing,
            device=device,
            suspects=suspects,
            kernels=self._kernels(scope),
            is_news=scope in self._unseen,
            loses_process=first.loses_process,
            value=first.code,
            limit=f"After {first.name} ({first.code}) {gone} be used in the same process",
            remedy=first.remedy or "Start a new process",
            chain=suspect_lines(suspects),
        )
        self._unseen.discard(scope)
        error.__cause__ = first
        error_log.record(error)
        return error


def suspect_lines(suspects: tuple[str, ...]) -> tuple[str, ...]:
    """Return what an error says of the launches that may have done it."""
    if not suspects:
        return ("no launch of kerneldsl was in flight; another library may have done it",)
    more = len(suspects) - _LISTED
    earlier = (f"{more} earlier ones, and",) if more > 0 else ()
    return (
        "launched since the device was last known to be well:",
        *earlier,
        *suspects[-_LISTED:],
    )


def _counted(notes: tuple[LaunchNote, ...]) -> list[tuple[LaunchNote, int]]:
    """Return each launch once with how often it was made, in the order of the last."""
    counts = Counter(notes)
    newest_first = dict.fromkeys(reversed(notes))
    return [(note, counts[note]) for note in reversed(newest_first)]
