"""The GPU as Numba meets it: a target of its own, made at the first compilation."""

from __future__ import annotations

from functools import cache

from kerneldsl.lowering.numba_internals.device_code import DeviceCodegen
from kerneldsl.lowering.numba_internals.device_target import Device, DeviceDescriptor
from targets.cuda.compile.constants import constant_array, constant_string
from targets.cuda.compile.nvptx import TRIPLE, initialize_nvptx
from targets.cuda.compile.unaligned import store_unaligned
from targets.cuda.intrinsics import printing

__all__ = ["TARGET_NAME", "descriptor"]

#: The name in Numba's registry of targets.
TARGET_NAME = "kerneldsl_cuda"


@cache
def descriptor() -> DeviceDescriptor:
    """Return the target's contexts; the caller holds Numba's compiler lock."""
    machine = initialize_nvptx().create_target_machine(cpu="sm_75", opt=3)
    codegen = DeviceCodegen(TRIPLE, str(machine.target_data))
    device = Device(
        TARGET_NAME,
        codegen,
        printing.registry,
        constant_string,
        constant_array,
        store_unaligned,
    )
    return DeviceDescriptor(device)
