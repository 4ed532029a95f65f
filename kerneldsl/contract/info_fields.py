"""Fields of the description of a device: name, unit and meaning of an attribute.

:class:`~kerneldsl.contract.info.DeviceInfo` is a table of these. Each is a descriptor, so that the
table gives the attributes, their types and their texts at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeAlias, TypeVar, overload

if TYPE_CHECKING:
    from kerneldsl.contract.info import DeviceInfo

__all__ = ["Applies", "Field", "Group", "Unit"]

T = TypeVar("T")

#: Kinds of devices that have the attribute.
Applies: TypeAlias = Literal["any", "gpu", "cpu"]
#: Group of a field in the table of all fields.
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
        #: Meaning of the field, in a few words.
        self.summary = summary
        #: Unit of the value; the attribute's name ends with it, too.
        self.unit = unit
        #: Kinds of devices that have the attribute.
        self.applies = applies
        #: Whether the value is read again at each access.
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
