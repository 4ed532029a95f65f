"""From a marked call to its span: kind, name, device, stream and bytes, read from its arguments.

A row for each mark of :func:`kerneldsl.utilities.observed.observed` in the contract. Arguments come
as the contract's signatures have them, by position or by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from kerneldsl.profiling.spans import Span

__all__ = ["MERGED", "SPAN_OF", "TIMED_ON_DEVICE"]

#: Makes the span of a call of a method's owner with these arguments.
_Maker: TypeAlias = Callable[[Any, tuple[Any, ...], Mapping[str, Any]], Span]


def _argument(args: tuple[Any, ...], named: Mapping[str, Any], at: int, name: str) -> Any:
    return args[at] if len(args) > at else named.get(name)


def _copy(direction: str, size_at: int = 2) -> _Maker:
    def make(device: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> Span:
        nbytes = _argument(args, named, size_at, "nbytes")
        stream = _argument(args, named, size_at + 1, "stream")
        return Span("copy", direction, device, stream, nbytes)

    return make


def _fill(device: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> Span:
    pattern, count = (_argument(args, named, at, n) for at, n in ((1, "pattern"), (2, "count")))
    stream = _argument(args, named, 3, "stream")
    return Span("copy", "fill", device, stream, len(pattern) * count)


def _wait(owner: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> Span:
    device = getattr(owner, "device", None)
    if device is None:
        return Span("wait", "device", owner)
    is_event = hasattr(owner, "is_timed")
    return Span("wait", "event" if is_event else "stream", device, None if is_event else owner)


def _allocation(name: str) -> _Maker:
    def make(owner: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> Span:
        nbytes = _argument(args, named, 0, "nbytes")
        stream = _argument(args, named, 1, "stream")
        return Span("allocation", name, getattr(owner, "device", owner), stream, nbytes)

    return make


def _compiling(kind: str) -> _Maker:
    def make(compiler: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> Span:
        specialization = _argument(args, named, 0, "specialization")
        arch = specialization.arch
        where = f"{compiler.name} {arch}" if arch else compiler.name
        return Span(kind, specialization.unit.qualname, where)

    return make


def _load(device: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> Span:
    artifact = _argument(args, named, 0, "artifact")
    return Span("load", artifact.specialization.unit.qualname, device)


def _launch(dispatcher: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> Span:
    return Span("launch", dispatcher.name)


def _graph(graph: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> Span:
    stream = _argument(args, named, 0, "stream")
    return Span("launch", f"graph of {graph.node_count} steps", graph.device, stream)


#: Mark to what makes the span of a call; ``"run"``, the start of code on a device, is the
#: recorder's own.
SPAN_OF: Final[Mapping[str, _Maker]] = {
    "launch": _launch,
    "graph": _graph,
    "host to device": _copy("host to device"),
    "device to host": _copy("device to host"),
    "device to device": _copy("device to device"),
    "device to peer": _copy("device to peer", size_at=3),
    "fill": _fill,
    "wait": _wait,
    "device memory": _allocation("device memory"),
    "pinned memory": _allocation("pinned memory"),
    "managed memory": _allocation("managed memory"),
    "compilation": _compiling("compilation"),
    "cache hit": _compiling("cache hit"),
    "load": _load,
}
#: Kinds of which a call within a call is a part: a copy by pieces is one copy.
MERGED: Final = frozenset({"copy", "wait", "allocation"})
#: Marks of calls that put work on a device, which the device's own clock times.
TIMED_ON_DEVICE: Final = frozenset(
    {"graph", "host to device", "device to host", "device to device", "device to peer", "fill"}
)
