"""Compiling plans in parallel processes, ahead of their measurement.

A forked child has the kernel as it is here, so nothing is sent to it. What it compiles it leaves in
the cache on disk, where this process finds it. Nothing is measured meanwhile. A child that does not
end in time is killed, and this process compiles its code. That happens because a fork beside
threads of other libraries may leave their locks closed (POSIX fork, "Rationale").
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
import warnings
from collections.abc import Sequence

from kerneldsl.cache.disk import disk_cache
from kerneldsl.contract import Compiler, Specialization
from kerneldsl.launch.artifact import compile_or_load
from kerneldsl.launch.measured import candidate_of
from kerneldsl.launch.request import Request
from kerneldsl.launch.specialize import specialize_anew
from kerneldsl.placement.devices import host_device
from kerneldsl.tuning.candidates import TuningCandidate
from kerneldsl.utilities.environment import logger

__all__ = ["CompileAhead", "compile_in_children"]

#: Codes of one batch for each process.
_EACH = 2
#: Seconds after which the children of a batch are given up.
_MOST_SECONDS = 120.0
_POLL_S = 0.005


class CompileAhead:
    """Compiles the code of a plan that is about to be measured, and that of likely ones after it.

    - `request`: the launch.
    - `candidates`: its plans.
    - `processes`: number of processes; by default as many as can run at once on the host.
    """

    def __init__(
        self, request: Request, candidates: Sequence[TuningCandidate], processes: int | None = None
    ) -> None:
        self._request = request
        self._candidates = candidates
        self._processes = processes or host_device().limits.multiprocessor_count
        self._is_on = self._processes > 1 and disk_cache().user is not None
        #: Numbers of the plans with code that is not yet compiled, the most likely first.
        self._left = sorted(
            range(len(candidates)), key=lambda number: candidates[number].point.predicted_ns
        )
        self._done: set[Specialization] = set()

    def prepare(self, number: int) -> None:
        """Compile the code of a plan, with others, unless that was done."""
        if not self._is_on:
            return
        wanted = self._code(number)
        if wanted in self._done:
            return
        if not self._done:  # this process compiles one, and so has imported what children inherit
            self._done.add(wanted)
            return
        batch = {wanted: None}
        while self._left and len(batch) < _EACH * self._processes:
            code = self._code(self._left.pop(0))
            if code not in self._done:
                batch[code] = None
        self._done.update(batch)
        if len(batch) > 1:
            compile_in_children(self._request.device.compiler, list(batch), self._processes)

    def _code(self, number: int) -> Specialization:
        plan = self._candidates[number].plan
        candidate = candidate_of(plan, self._request)
        assert candidate is not None
        request = self._request
        if candidate.member is not None:
            request = request.of(candidate.member)
        return specialize_anew(request, plan.mapping)


def compile_in_children(
    compiler: Compiler, codes: Sequence[Specialization], processes: int
) -> None:
    """Compile into the cache on disk, in several processes; return when all have ended.

    A failure is left to the launch that needs the code. An interrupt ends the children.
    """
    if not hasattr(os, "fork"):
        return
    started = time.perf_counter()
    children: set[int] = set()
    try:
        for first in range(min(processes, len(codes))):
            children.add(_fork(compiler, codes[first::processes]))
        while children and time.perf_counter() - started < _MOST_SECONDS:
            for child in tuple(children):
                if os.waitpid(child, os.WNOHANG)[0]:
                    children.discard(child)
            time.sleep(_POLL_S)
    finally:
        for child in children:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
    seconds = time.perf_counter() - started
    logger.debug("compiled %d codes in %d processes in %.1f s", len(codes), processes, seconds)


def _fork(compiler: Compiler, codes: Sequence[Specialization]) -> int:
    """Return the child, which compiles and ends."""
    if not hasattr(os, "fork"):
        raise OSError("this system has no fork")
    with warnings.catch_warnings():
        # Python warns of forks beside threads; see above.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        return child
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
        for code in codes:
            with contextlib.suppress(Exception):  # the parent compiles it again, and raises
                compile_or_load(compiler, code)
    finally:
        os._exit(0)  # nothing of the parent's is flushed, closed or freed here
