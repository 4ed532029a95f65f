"""Worker of ``kerneldsl warm``, one process for each architecture."""

from __future__ import annotations

import dataclasses
import json
import os
import runpy
import sys
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


def main(arch: str, report: str, script: str, *arguments: str) -> None:
    """Run a script as Python would, and write down what the cache did.

    `arch` is what its kernels are compiled for, empty for the devices that are there; `report` is
    the file to write, as JSON.
    """
    import kerneldsl as kd

    sys.argv = [script, *arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    if arch:
        target: Any = get_target(dry_run())
        target.set_devices(described_gpu(arch, target.devices()[0]))
    try:
        runpy.run_path(script, run_name="__main__")
    finally:
        with open(report, "w", encoding="utf-8") as file:
            json.dump(kd.cache.stats().to_dict(), file)


if __name__ == "__main__":
    main(*sys.argv[1:])
