"""Identity of a launch in records of tuning, in words that hold on another machine.

A record in the cache is found by the code that was measured. Records that are shipped, shown or
taken to another machine have this key: the kernel's name, its captured values, the kinds of its
arguments, the class of the extents, the device and the class of its driver. The kernel's own text
is not part of the key, so a table stays valid after changes of the text. A plan that is no longer
legal for the kernel is left aside.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from kerneldsl.frontend.fingerprint import UnidentifiedError, identify
from kerneldsl.language.kinds import format_signature
from kerneldsl.launch.request import Request
from kerneldsl.planner.candidates import extent_class
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.formatting import AsDict

__all__ = ["TunedLaunch", "driver_class", "tuned_launch"]

_DIGITS = 16


@dataclass(frozen=True, slots=True)
class TunedLaunch(AsDict):
    """Launches that share a tuned plan."""

    #: Module and qualified name of the kernel.
    kernel: str
    #: Digest of the constants and outside names that the kernel and its functions use.
    captures: str
    #: Kinds of the arguments.
    signature: str
    #: The largest extents of their class.
    extents: tuple[int, ...]
    #: Name of the device.
    device: str
    #: Driver that compiles, such as ``"CUDA 13.0"``; empty if the toolchain alone does.
    driver: str = ""

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> TunedLaunch:
        """Read what :meth:`to_dict` gave, and JSON did to it.

        - raises `KeyError`, `TypeError`, `ValueError` if it is not that.
        """
        names = ("kernel", "captures", "signature", "device", "driver")
        texts = {name: found[name] for name in names}
        extents = tuple(found["extents"])
        if not all(isinstance(text, str) for text in texts.values()):
            raise TypeError("the names of a launch are text")
        if not all(type(extent) is int for extent in extents):
            raise TypeError("extents are ints")
        return cls(extents=extents, **texts)

    @property
    def in_class(self) -> TunedLaunch:
        """The launch on any driver of the same class."""
        driver = driver_class(self.driver)
        return TunedLaunch(
            self.kernel, self.captures, self.signature, self.extents, self.device, driver
        )


def tuned_launch(request: Request) -> TunedLaunch:
    """Return the identity of a launch over an extent."""
    unit, device, extent = request.state.unit, request.device, request.shape.extent
    assert extent is not None
    return TunedLaunch(
        f"{unit.module}.{unit.qualname}",
        _captures(request),
        format_signature(request.kinds),
        extent_class(extent),
        device.name,
        device.software,
    )


def driver_class(driver: str) -> str:
    """Return the versions of a driver among which plans keep their order: those of a major one.

    Examples
    --------
    >>> driver_class("CUDA 13.0"), driver_class("")
    ('CUDA 13', '')
    """
    return driver.split(".", maxsplit=1)[0]


def _captures(request: Request) -> str:
    space = request.shape.space
    state = request.state if space is None else request.of(space.members[0]).state
    try:
        parts = identify(state.unit)
    except UnidentifiedError:
        return ""
    # A function's text is identified by a name without a colon.
    told = {name: value if ": " in name else "" for name, value in parts.items()}
    text = json.dumps(told, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
