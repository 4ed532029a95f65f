"""Profiles for programs: ``with kd.profile() as p:``."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, Self

from kerneldsl.errors import ArgumentValueError, ToolMissingError
from kerneldsl.errors.kernels import wrong_value
from kerneldsl.profiling.activities import (
    Activity,
    Throughput,
    covered_ns,
    make_activity,
    throughput,
    with_work,
)
from kerneldsl.profiling.recorder import NvtxRanges, recorder
from kerneldsl.profiling.spans import LaunchedCode, Span
from kerneldsl.profiling.summary import ProfileSummary, summarize
from kerneldsl.profiling.timeline import read_timeline, write_timeline
from kerneldsl.utilities.flags import read_flag
from kerneldsl.utilities.formatting import format_count, format_duration
from kerneldsl.utilities.process_owned import ProcessOwned
from kerneldsl.utilities.shown import Shown
from kerneldsl.utilities.tracebacks import shorten_errors, shorten_errors_of

if TYPE_CHECKING:
    from kerneldsl.profiling.work import Work

__all__ = ["Profile", "profile"]


@shorten_errors_of("__enter__")
class Profile(Shown, ProcessOwned):
    """Record of the launches, copies and waits of a program; made by :func:`profile`.

    ``with kd.profile() as p:`` records the whole process: every thread, device and stream. Profiles
    may be nested and may overlap. Each contains the activities that began while it was active. Make
    a new profile for each block. A child process that is forked within the block records nothing.

    Within the block, launches run in Python instead of native code. This takes some microseconds
    more for each repeated launch.
    """

    __slots__ = (
        "_cupti",
        "_end_ns",
        "_found",
        "_nvtx",
        "_spans",
        "_state",
        "_works",
        "begin_ns",
    )

    _internal = frozenset({"end_in_child", "begin_ns", "take"})
    _send_instead = "Send p.activities, or what p.summary().to_dict() gives"

    def __init__(self, *, nvtx: bool = False, cupti: bool = False) -> None:
        self._nvtx = NvtxRanges() if nvtx else None
        self._cupti = cupti
        self._spans: list[Span] = []
        self._state: Literal["new", "active", "ended", "abandoned"] = "new"
        #: The results after the end of the block: the activities, and the work of each.
        self._found: tuple[tuple[Activity, ...], tuple[LaunchedCode | None, ...]] | None = None
        self._works: Sequence[Work | None] | None = None
        self.begin_ns = self._end_ns = 0

    def __enter__(self) -> Self:
        if self._state != "new":
            raise ArgumentValueError(
                f"this profile is {self._state}",
                value=self,
                limit="A profile records one block",
                remedy="Make another one: with kd.profile() as p:",
            )
        recorder.add(self, self._nvtx, is_traced=self._cupti)
        self._state = "active"
        return self

    def __exit__(self, *exc: object) -> None:
        if self._state == "active":
            self._end_ns = time.perf_counter_ns()
            recorder.remove(self)
            self._state = "ended"

    def take(self, span: Span) -> None:
        """Take a span from the recorder."""
        self._spans.append(span)

    def end_in_child(self) -> None:
        """End, in a forked child."""
        self._end_ns = time.perf_counter_ns()
        self._state = "abandoned"

    # ------------------------------------------------------------------ what was recorded

    @property
    def wall_ns(self) -> int:
        """Nanoseconds from the begin of the block to its end, or until now."""
        if self._state == "new":
            return 0
        return (self._end_ns or time.perf_counter_ns()) - self.begin_ns

    @property
    def recorded_ns(self) -> int:
        """Nanoseconds of these that at least one activity covers, in any thread."""
        return covered_ns(self.activities)

    @property
    def activities(self) -> tuple[Activity, ...]:
        """Activities that have ended, in the order of their begin.

        After the block, this waits until the devices have finished its work.
        """
        return self._read()[0]

    def _read(self) -> tuple[tuple[Activity, ...], tuple[LaunchedCode | None, ...]]:
        """Return the activities, and for each launch the started kernel."""
        if self._found is not None:
            return self._found
        if self._state == "ended":
            recorder.wait_for_times()
        else:
            recorder.read_times()
        # Depth is the second key: the clock may give two spans the same time.
        spans = sorted(self._spans, key=lambda span: (span.begin_ns, span.depth))
        activities = tuple(make_activity(each, self.begin_ns) for each in spans)
        found = activities, tuple(span.code for span in spans)
        if self._state == "ended":
            self._found = found
        return found

    def _read_with_work(
        self, with_work: bool
    ) -> tuple[tuple[Activity, ...], Sequence[Work | None]]:
        """Return the activities and the work of each, which is empty if not requested."""
        activities, codes = self._read()
        if not with_work:
            return activities, ()
        if self._works is not None:
            return activities, self._works
        from kerneldsl.profiling.work import work_of

        with recorder.muted():
            works = work_of(codes)
        if self._found is not None:
            self._works = works
        return activities, works

    @shorten_errors
    def summary(
        self,
        by: Literal["host", "device"] = "host",
        *,
        streams: bool = False,
        work: bool = False,
    ) -> ProfileSummary:
        """Return the totals of the activities, those with the longest time first.

        Parameters
        ----------
        by : {"host", "device"}
            The clock: the time of the calls on the host, or the time on the devices.
        streams : bool, optional
            Whether each stream has separate rows.
        work : bool, optional
            Whether to count the bytes and operations of kernels. This imports SymPy and Numba, and
            takes up to a second for each kind of launch. The speed of the CPU is measured once,
            which takes a second.

        Returns
        -------
        ProfileSummary

        Raises
        ------
        ArgumentValueError
            If `by` has another value.
        """
        if not isinstance(by, str) or by not in ("host", "device"):
            raise wrong_value("by", by, 'It must be "host" or "device"')
        with_streams = read_flag("streams", streams)
        activities, works = self._read_with_work(read_flag("work", work))
        return summarize(
            activities,
            works,
            wall_ns=self.wall_ns,
            by=by,
            with_streams=with_streams,
        )

    @shorten_errors
    def to_dataframe(self, *, work: bool = False) -> Any:
        """Return the activities as a pandas DataFrame with a row for each.

        Parameters
        ----------
        work : bool, optional
            Whether to count the bytes and operations of kernels, as in :meth:`summary`.

        Returns
        -------
        pandas.DataFrame
            The columns are the fields of :class:`Activity`, then `flops`, `bytes_per_s`,
            `flops_per_s` and `roof_share`, as in a row of the summary. With ``work=True``, `nbytes`
            of a launch is the least number of bytes that memory transfers. Otherwise launches have
            no values in these columns.

        Raises
        ------
        ToolMissingError
            If pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise ToolMissingError(
                "a data frame needs pandas, which is not installed",
                remedy='pip install "kerneldsl[profile]", or read p.activities',
            ) from error
        found = with_work(*self._read_with_work(read_flag("work", work)))
        rows = [{**each[0].to_dict(), **throughput([each])._asdict()} for each in found]
        columns = dict.fromkeys((*Activity.__dataclass_fields__, *Throughput._fields))
        return pandas.DataFrame(rows, columns=[*columns])

    @shorten_errors
    def timeline(self, path: str | os.PathLike[str], *, work: bool = False) -> None:
        """Write the activities along time to a file, as a trace or a picture.

        Parameters
        ----------
        path : str or path
            The file, which is overwritten. ``.json`` is a trace for Perfetto
            (https://ui.perfetto.dev) and Chrome's ``about:tracing``. ``.png``, ``.svg`` and
            ``.pdf`` are pictures, which Matplotlib draws.
        work : bool, optional
            Whether to count the bytes and operations of kernels for a trace, as in
            :meth:`summary`. A picture does not show them.

        Raises
        ------
        ArgumentTypeError, ArgumentValueError
            If `path` is not a path, has another suffix, or cannot be written.
        ToolMissingError
            If it is a picture, and Matplotlib is not installed.
        """
        with_work = read_flag("work", work)
        file = read_timeline(path)
        is_trace = file.suffix.lower() == ".json"
        write_timeline(file, *self._read_with_work(with_work and is_trace))

    def __repr__(self) -> str:
        if self._state == "new":
            return "<Profile that has not begun>"
        count = format_count(len(self._spans), "activity", "activities")
        return f"<Profile, {self._state}: {count} in {format_duration(self.wall_ns)}>"


def profile(*, nvtx: bool = False, cupti: bool = False) -> Profile:
    """Record launches, copies, allocations, compilations and waits within a ``with`` block.

    Parameters
    ----------
    nvtx : bool, optional
        Whether to mark the activities with NVTX ranges as well, which Nsight Systems shows.
    cupti : bool, optional
        Whether to measure times on NVIDIA GPUs with CUPTI, instead of events around each launch and
        copy. If CUPTI returns an error, events are used.

    Returns
    -------
    Profile
        A context manager: ``with kd.profile() as p:``.

    Raises
    ------
    ToolMissingError
        If the package for `nvtx` or `cupti` is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> import kerneldsl as kd
    >>> @kd.kernel
    ... def double(x):
    ...     x[kd.grid(1)] *= 2
    >>> with kd.use("cpu"), kd.profile() as p:
    ...     double.forall(1000)(np.ones(1000))
    >>> [each.name for each in p.activities if each.kind == "launch"]
    ['double']
    """
    if read_flag("cupti", cupti) and find_spec("cupti") is None:
        raise ToolMissingError(
            "cupti=True needs the package cupti-python",
            limit="It is NVIDIA's, for the CUDA release of the driver",
            remedy="pip install cupti-python, or leave out cupti=True: events are recorded then",
        )
    return Profile(nvtx=read_flag("nvtx", nvtx), cupti=cupti)
