"""The recorder of the process: takes spans of marked calls while a profile is active.

There is one, whatever profiles are active: it hands each span to those that had begun by then.
Launches go through Python meanwhile, since native code calls no marked method. A thread has a stack
of open spans, so that a span knows how many are around it.
"""

from __future__ import annotations

import functools
import itertools
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from types import FunctionType
from typing import Any, Final, Protocol, TypeAlias

from kerneldsl.contract import Device, Executable, Tracer
from kerneldsl.contract.abi import SlotParameters
from kerneldsl.errors import KernelError, ToolMissingError
from kerneldsl.profiling.spans import LaunchedCode, Span
from kerneldsl.statistics.collect import fallback_listeners
from kerneldsl.utilities.locks import ForkSafeLock, no_fork
from kerneldsl.utilities.observed import observe, stop_observing

__all__ = ["NvtxRanges", "Sink", "recorder"]


# -- from a marked call to its span ----------------------------------------------------------------

# Kind, name, device, stream and bytes are read from the arguments of the call.
#
# A row for each mark of :func:`kerneldsl.utilities.observed.observed` in the contract. Arguments
# come as the contract's signatures have them, by position or by name.


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
#: Kinds for which a call within a call is a part of it: a copy by pieces is one copy.
MERGED: Final = frozenset({"copy", "wait", "allocation"})
#: Marks of calls that put work on a device, which the device's own clock times.
TIMED_ON_DEVICE: Final = frozenset(
    {"graph", "host to device", "device to host", "device to device", "device to peer", "fill"}
)


#: Spans without a time on the device, above which the times of finished ones are read.
_MAX_PENDING = 1024


class Sink(Protocol):
    """A profile, as the recorder sees it."""

    begin_ns: int

    def take(self, span: Span) -> None:
        """Take a span that has ended."""

    def end_in_child(self) -> None:
        """End, since this process is a forked child."""


#: Numbers of threads. The system gives a thread's identifier to another one once it has ended.
_thread_numbers = itertools.count(1)


class _OpenSpans(threading.local):
    """Number of a thread, its open spans, outermost first, and whether it records nothing."""

    def __init__(self) -> None:
        self.number = next(_thread_numbers)
        self.stack: list[Span] = []
        self.is_muted = False


class Recorder:
    """Takes spans, and hands them to the active profiles."""

    def __init__(self) -> None:
        self._sinks: tuple[Sink, ...] = ()
        self._open = _OpenSpans()
        self._lock = ForkSafeLock()
        self._resources: ExitStack | None = None
        self._codes: dict[tuple[int, int, bytes], LaunchedCode] = {}
        #: First timer that each device started, and its time.
        self._first_timers: dict[Device, tuple[Any, int]] = {}
        self._pending: deque[Span] = deque()
        self._ranges: NvtxRanges | None = None
        #: Whether devices are traced by a tool, and the tool of each target that has one.
        self._is_traced = False
        self._tracers: dict[str, Tracer | None] = {}

    # ------------------------------------------------------------------ profiles

    def add(self, sink: Sink, ranges: NvtxRanges | None, *, is_traced: bool) -> None:
        """Let a profile begin; its devices are traced if they have a tool and it is wanted."""
        with no_fork:  # a child would wait for the import for ever, and find LLVM half-way
            # This module declares the classes that native code extends.
            import kerneldsl.kernels.kernel  # noqa: F401
            from kerneldsl.launch.native import machine
        with self._lock:
            if not self._sinks:
                self._resources = ExitStack()
                self._resources.enter_context(machine.suspended())
                self._codes, self._first_timers = {}, {}
                fallback_listeners.append(self._fall_back)
                observe(self.wrap)
            if ranges is not None:
                self._ranges = ranges
            self._is_traced |= is_traced
            self._sinks = (*self._sinks, sink)
            sink.begin_ns = time.perf_counter_ns()

    def remove(self, sink: Sink) -> None:
        """Let a profile end."""
        with self._lock:
            if sink not in self._sinks:
                return  # given up in a forked child
            self._sinks = tuple(each for each in self._sinks if each is not sink)
            if not self._sinks:
                self._stop()

    def _stop(self) -> None:
        stop_observing()
        fallback_listeners.remove(self._fall_back)
        self._ranges, self._codes, self._is_traced = None, {}, False
        if self._resources is not None:
            self._resources.close()
            self._resources = None

    def forget(self) -> None:
        """Give up in a forked child: what it does belongs to no profile of its parent."""
        sinks, self._sinks = self._sinks, ()
        self._open = _OpenSpans()
        self._pending.clear()
        self._tracers = {}
        if sinks:
            self._stop()
        for sink in sinks:
            sink.end_in_child()

    def muted(self) -> _Muted:
        """Return a context manager in which this thread's calls are not recorded."""
        return _Muted(self._open)

    # ------------------------------------------------------------------ spans

    def wrap(self, mark: str, method: FunctionType) -> Callable[..., Any]:
        """Make what takes the place of a marked method."""
        if mark == "run":
            return self._wrap_run(method)
        make, is_timed = SPAN_OF[mark], mark in TIMED_ON_DEVICE

        @functools.wraps(method)
        def call(owner: Any, *args: Any, **named: Any) -> Any:
            opened = self._open
            if not self._sinks or opened.is_muted:
                return method(owner, *args, **named)
            stack = opened.stack
            try:
                span = make(owner, args, named)
            except (AttributeError, TypeError):  # arguments that the method itself will refuse
                return method(owner, *args, **named)
            if stack and stack[-1].kind == span.kind and span.kind in MERGED:
                return method(owner, *args, **named)
            with self._recorded(span, stack):
                if is_timed:
                    return self._on_device(span, lambda: method(owner, *args, **named))
                return method(owner, *args, **named)

        return call

    def _wrap_run(self, method: FunctionType) -> Callable[..., Any]:
        """Make the replacement of `Executable.launch`, with the launch's own span."""

        @functools.wraps(method)
        def run(executable: Executable, config: Any, parameters: Any) -> Any:
            opened = self._open
            if not self._sinks or opened.is_muted:
                return method(executable, config, parameters)
            stack = opened.stack
            code = self._code(executable, config, parameters)
            if stack and stack[-1].kind == "launch" and stack[-1].device is None:
                span = stack[-1]
                _fill_in(span, code)
                return self._on_device(span, lambda: method(executable, config, parameters))
            # This is no launch of the program: a step of a graph, or a measurement of the tuner.
            span = Span("launch", code.specialization.unit.qualname)
            _fill_in(span, code)
            with self._recorded(span, stack):
                return self._on_device(span, lambda: method(executable, config, parameters))

        return run

    @contextmanager
    def _recorded(self, span: Span, stack: list[Span]) -> Iterator[None]:
        """Have a span begin and end with a block; an exception that leaves it is noted."""
        self._begin(span, stack)
        try:
            yield
        except BaseException as error:
            span.failure = type(error).__name__
            raise
        finally:
            self._end(span, stack)

    def _code(self, executable: Executable, config: Any, parameters: Any) -> LaunchedCode:
        flat = parameters.flat if type(parameters) is SlotParameters else parameters
        specialization = executable.artifact.specialization
        key = (id(specialization), id(config), flat)
        found = self._codes.get(key)
        if found is None:
            made = LaunchedCode(specialization, config, flat, executable.device)
            found = self._codes.setdefault(key, made)
        return found

    def _begin(self, span: Span, stack: list[Span]) -> None:
        span.depth = len(stack)
        stack.append(span)
        if self._ranges is not None:
            self._ranges.push(span)
        span.begin_ns = time.perf_counter_ns()

    def _end(self, span: Span, stack: list[Span]) -> None:
        span.end_ns = time.perf_counter_ns()
        if self._ranges is not None:
            self._ranges.pop()
        stack.pop()
        span.thread, span.thread_name = self._open.number, threading.current_thread().name
        for sink in self._sinks:
            if sink.begin_ns <= span.begin_ns:
                sink.take(span)

    def _fall_back(self, device: str, reason: str) -> None:
        if self._open.is_muted:
            return
        stack = self._open.stack
        name = stack[-1].name if stack else "launch"
        span = Span("fallback", name, device, detail=reason)
        self._begin(span, stack)
        self._end(span, stack)

    # ------------------------------------------------------------------ times on devices

    def _on_device(self, span: Span, start: Callable[[], Any]) -> Any:
        """Make a call that puts work on the span's device, and have the device time it."""
        device = span.device
        if device.is_synchronous:
            span.device_begin_ns = began = time.perf_counter_ns()
            try:
                return start()
            finally:
                span.device_ns = time.perf_counter_ns() - began
        tracer = self._tracer_of(device) if self._is_traced else None
        timer = (tracer or device).start_timer(span.stream)
        if timer is not None and device not in self._first_timers:
            self._first_timers[device] = (timer, time.perf_counter_ns())
        try:
            result = start()
        finally:
            if timer is not None:
                timer.stop()
        if timer is not None:
            span.timer = timer
            self._pending.append(span)
            if len(self._pending) > _MAX_PENDING:
                self.read_times()
        return result

    def _tracer_of(self, device: Device) -> Tracer | None:
        """Return what traces a device, one for all devices of a target."""
        if device.target not in self._tracers:
            self._tracers[device.target] = device.trace()
        return self._tracers[device.target]

    def read_times(self) -> None:
        """Read the times of the work that devices have finished."""
        for tracer in tuple(self._tracers.values()):
            if tracer is not None:
                tracer.flush()
        for _ in range(len(self._pending)):
            try:
                span = self._pending.popleft()
            except IndexError:  # another thread reads, too
                return
            if not self._read_time(span):
                self._pending.append(span)

    def _read_time(self, span: Span) -> bool:
        timer = span.timer
        elapsed = None if timer is None else timer.elapsed_ns()
        if timer is None or elapsed is None:
            return timer is None
        if elapsed >= 0:
            span.device_ns = elapsed
            first, at_ns = self._first_timers.get(span.device, (None, 0))
            since = None if first is None else timer.begin_ns_since(first)
            span.device_begin_ns = None if since is None else at_ns + since
        span.timer = None
        return True

    def wait_for_times(self) -> None:
        """Wait for the devices with unread times, and read them."""
        self.read_times()
        with self.muted():
            for device in dict.fromkeys(span.device for span in tuple(self._pending)):
                # An error is raised where the program waits; the time of the work stays unknown.
                with suppress(KernelError):
                    device.synchronize()
        self.read_times()
        if not self._sinks:
            # Work without a time by now, such as work recorded into a graph, will not get one.
            self._pending.clear()
            for tracer in self._tracers.values():
                if tracer is not None:
                    tracer.close()
            self._tracers = {}


class _Muted:
    """A block in which a thread's calls are not recorded."""

    def __init__(self, opened: _OpenSpans) -> None:
        self._opened = opened
        self._was_muted = False

    def __enter__(self) -> None:
        self._was_muted, self._opened.is_muted = self._opened.is_muted, True

    def __exit__(self, *exc: object) -> None:
        self._opened.is_muted = self._was_muted


def _fill_in(span: Span, code: LaunchedCode) -> None:
    span.code, span.device, span.stream = code, code.device, code.config.stream


#: The one of the process.
recorder = Recorder()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=recorder.forget)


# NVTX ranges around what is recorded, so that Nsight shows the names that a profile has.
#
# See NVTX Python documentation, "push_range" and "pop_range".

_DOMAIN = "kerneldsl"


class NvtxRanges:
    """Ranges in a separate domain.

    - raises `ToolMissingError` if the package ``nvtx`` is not installed.
    """

    def __init__(self) -> None:
        try:
            import nvtx
        except ImportError as error:
            raise ToolMissingError(
                "NVTX ranges need the package nvtx",
                limit="kd.profile(nvtx=True) marks what it records for Nsight",
                remedy="pip install nvtx, or leave out nvtx=True",
            ) from error
        self._nvtx: Any = nvtx

    def push(self, span: Span) -> None:
        """Begin the range of a span."""
        self._nvtx.push_range(f"{span.kind} {span.name}", domain=_DOMAIN, category=span.kind)

    def pop(self) -> None:
        """End the innermost range of this thread."""
        self._nvtx.pop_range(domain=_DOMAIN)
