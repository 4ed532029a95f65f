"""One line of a description of a device: its name, unit, and what it says.

:class:`~kerneldsl.contract.info.DeviceInfo` is a table of these. Each is a descriptor, so that the
table gives the attributes, their types and their texts at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeAlias, TypeVar, overload

if TYPE_CHECKING:
    from kerneldsl.contract.info import DeviceInfo

__all__ = ["Applies", "Field", "Group", "Unit"]

T = TypeVar("T")

#: Which devices have such a thing at all.
Applies: TypeAlias = Literal["any", "gpu", "cpu"]
#: Its part of the table of all fields.
Group: TypeAlias = Literal["identity", "processors", "memory", "limits", "abilities", "live"]
Unit: TypeAlias = Literal["", "bytes", "bytes/s", "bits", "kHz", "MHz", "%", "°C", "W"]


class Field(Generic[T]):
    """An attribute of a device."""

    __slots__ = ("applies", "group", "is_live", "name", "summary", "unit")

    def __init__(
        self,
        group: Group,
        summary: str,
        unit: Unit = "",
        *,
        applies: Applies = "any",
        is_live: bool = False,
    ) -> None:
        self.group = group
        #: What it says, in a few words.
        self.summary = summary
        #: Of the value; the attribute's name says it too.
        self.unit = unit
        #: Whether only GPUs or only CPUs have it.
        self.applies = applies
        #: Whether it is read again each time it is requested.
        self.is_live = is_live
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: DeviceInfo, owner: type) -> T: ...
    def __get__(self, instance: DeviceInfo | None, owner: type) -> Any:
        return self if instance is None else instance.get(self.name)

    def __repr__(self) -> str:
        return f"Field({self.name!r}, {self.summary!r})"
