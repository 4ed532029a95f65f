"""Kinds of numbers and units of an NVIDIA GPU, with the sources.

References
----------
PTX ISA 9.0: ``fma`` (``.f16`` from sm_53, ``.bf16`` from sm_80), ``cvt`` (``.e4m3x2`` from sm_89),
``wmma`` (from sm_70). CUDA Programming Guide, appendix "Compute Capabilities". NVIDIA Turing GPU
Architecture: TU116 and TU117 are chips of compute capability 7.5 without tensor cores.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kerneldsl.utilities.formatting import format_version

__all__ = ["abilities_of"]

#: Attribute to the first compute capability, what it brought, and where that stands.
_SINCE = {
    "supports_fp16": ((5, 3), "arithmetic in float16", "PTX ISA, fma.f16"),
    "supports_bf16": ((8, 0), "arithmetic in bfloat16", "PTX ISA, fma.bf16"),
    "supports_fp8": ((8, 9), "conversions and products of e4m3 and e5m2", "PTX ISA, cvt.e4m3x2"),
    "supports_tensor_cores": ((7, 0), "tensor cores", "PTX ISA, wmma"),
}
#: Products with a TU116 or TU117.
_TURING_WITHOUT_TENSOR_CORES = re.compile(
    r"\bGTX 16\d0|\bMX[45]50\b|\bT(?:400|500|550|600|1000|1200|2000)\b"
)


def abilities_of(name: str, compute_capability: tuple[int, int]) -> Mapping[str, tuple[bool, str]]:
    """Say what a GPU can do.

    The result maps attributes of :class:`~kerneldsl.DeviceInfo` to value and reason.

    Examples
    --------
    >>> abilities_of("NVIDIA A100-SXM4-80GB", (8, 0))["supports_bf16"]
    (True, 'Compute capability 8.0; arithmetic in bfloat16 came with 8.0 (PTX ISA, fma.bf16)')
    """
    found = {}
    for attribute, (since, what, where) in _SINCE.items():
        found[attribute] = (
            compute_capability >= since,
            f"Compute capability {format_version(compute_capability)}; {what} came with "
            f"{format_version(since)} ({where})",
        )
    if compute_capability == (7, 5) and _TURING_WITHOUT_TENSOR_CORES.search(name):
        found["supports_tensor_cores"] = (
            False,
            f"{name} has a chip of the Turing family that was made without tensor cores (TU116, "
            "TU117)",
        )
    return found
