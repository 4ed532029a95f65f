"""Spans: what the recorder writes down of a call while it runs, as cheaply as it can.

Names are made later, of the objects that are here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kerneldsl.utilities.dataclasses import dataclass

if TYPE_CHECKING:
    from kerneldsl.contract import Device, LaunchConfig, LaunchTimer, Specialization

__all__ = ["LaunchedCode", "Span"]


@dataclass(eq=False, slots=True)
class LaunchedCode:
    """Code that a launch started: enough to count its work later, and none of its arrays."""

    #: The kernel and its arguments' types.
    specialization: Specialization
    #: Grid, block and extent.
    config: LaunchConfig
    #: The parameter buffer.
    parameters: bytes
    #: The device on which it ran.
    device: Device


class Span:
    """A call from its begin to its end, by the host's clock in ns.

    - `kind`, `name`: as :class:`~kerneldsl.profiling.activities.Activity` has them.
    - `device`: the device of the work.
    - `stream`: identity of the stream; ``None`` for the default one.
    - `nbytes`: bytes that are moved or taken.
    - `detail`: further information.
    - `depth`: number of spans of its thread around it.
    - `thread`, `thread_name`: the calling thread: a number that no other thread of the process has,
      and the name.
    - `begin_ns`, `end_ns`: when; `end_ns` is 0 while it is open.
    - `failure`: name of the class of the exception that ended it; empty if none did.
    - `timer`: returns the time on the device, once it has come to the end.
    - `device_begin_ns`, `device_ns`: when it began on the device, by the host's clock, and how long
      it took there.
    - `code`: the started code of a launch.
    """

    __slots__ = (
        "begin_ns",
        "code",
        "depth",
        "detail",
        "device",
        "device_begin_ns",
        "device_ns",
        "end_ns",
        "failure",
        "kind",
        "name",
        "nbytes",
        "stream",
        "thread",
        "thread_name",
        "timer",
    )

    def __init__(
        self,
        kind: str,
        name: str,
        device: Any = None,
        stream: Any = None,
        nbytes: int | None = None,
        detail: str = "",
    ) -> None:
        self.kind = kind
        self.name = name
        self.device = device
        self.stream = stream
        self.nbytes = nbytes
        self.detail = detail
        self.depth = 0
        self.thread = 0
        self.thread_name = ""
        self.begin_ns = self.end_ns = 0
        self.failure = ""
        self.timer: LaunchTimer | None = None
        self.device_begin_ns: int | None = None
        self.device_ns: int | None = None
        self.code: LaunchedCode | None = None
