"""Worker of ``kerneldsl profile`` and ``kerneldsl warm``: the process in which a script runs."""

from __future__ import annotations

import dataclasses
import json
import os
import runpy
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kerneldsl.contract import Device
from kerneldsl.placement.registry import built_in_targets, get_target, target_writing

__all__ = ["described_gpu", "dry_run", "main"]


def dry_run() -> str:
    """Return the target that prepares launches for an architecture without running them."""
    found = built_in_targets()[target_writing("ptx")].dry_run
    assert found is not None
    return found


def described_gpu(arch: str, usual: Device) -> Device:
    """Return the GPU that launches for an architecture go to.

    It is the one that plans are made for, so that a launch is mapped to threads as on a card of
    that size. What no plan depends on, such as the size of its memory, is the usual device's.
    `usual` is a device of the target that rehearses. Raises `ArgumentValueError` if not enough is
    known of the architecture.
    """
    device = get_target(target_writing("ptx")).described(arch).description
    return dataclasses.replace(device, extra={**usual.extra, **device.extra})


def main(command: str, options: str, report: str, script: str, *arguments: str) -> None:
    """Run a script as Python would, and write a report of it as JSON.

    `options` are those of the command as JSON; `report` is the file to write, also where the script
    ends with an exception.
    """
    sys.argv = [script, *arguments]
    file = os.path.abspath(script)
    sys.path[0] = os.path.dirname(file)
    found: dict[str, Any] = {}
    try:
        with _COMMANDS[command](json.loads(options), found):
            runpy.run_path(file, run_name="__main__")
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 -- it is shown
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != file:
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        # A shell has this status for what Ctrl-C ends.
        sys.exit(128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1)
    finally:
        if found:
            with open(report, "w", encoding="utf-8") as written:
                json.dump(found, written)


@contextmanager
def _profiled(options: Any, found: dict[str, Any]) -> Iterator[None]:
    """Profile a script, and report its summary."""
    import kerneldsl as kd

    profile = kd.profile(nvtx=options["nvtx"], cupti=options["cupti"])
    try:
        with profile:
            yield
    finally:
        summary = profile.summary(options["by"], streams=options["streams"], work=options["work"])
        found |= {**summary.to_dict(), "recorded_ns": profile.recorded_ns, "refused": None}
        if options["timeline"] is not None:
            try:
                profile.timeline(options["timeline"], work=options["work"])
            except kd.KernelError as error:  # the command tells it: it is not the script's fault
                found["refused"] = str(error)


@contextmanager
def _warmed(arch: Any, found: dict[str, Any]) -> Iterator[None]:
    """Report what the cache did; with an architecture, compile for that."""
    import kerneldsl as kd

    if arch:
        target: Any = get_target(dry_run())
        target.set_devices(described_gpu(arch, target.devices()[0]))
    try:
        yield
    finally:
        found |= kd.cache.stats().to_dict()


_COMMANDS: dict[str, Callable[..., Any]] = {"profile": _profiled, "warm": _warmed}

if __name__ == "__main__":
    main(*sys.argv[1:])
