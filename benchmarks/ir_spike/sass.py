"""Compare the machine code of both paths without a GPU: instructions, registers, by opcode.

The specializations are those of launches on an H200 that the null target plans, and of a mapping
with several groups of items.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from typing import Any

import numpy as np

import kerneldsl as kd
from benchmarks.ir_spike.fresh import fresh_module
from kerneldsl.contract import ElementMapping
from targets.cuda.compile.ptx_compiler import PtxCompiler
from targets.cuda.compile.regions.compile import compile_regions


def launched() -> list[Any]:
    """Return the specializations of launches."""
    specs: list[Any] = []
    original = PtxCompiler.compile

    def compile(self: PtxCompiler, spec: Any) -> Any:
        specs.append(spec)
        return original(self, spec)

    PtxCompiler.compile = compile  # type: ignore[method-assign]
    module = fresh_module()
    with kd.use("null"):
        for n in (1000, 1 << 26):
            x, y, out = (kd.empty(n, np.float32) for _ in range(3))
            module.axpy.forall(n)(np.float32(2), x, y, out)
        sums = kd.empty(-(-n // 256), np.float32)
        module.tree[sums.size, 256](x, sums)
        module.shuffle[sums.size, 256](x, sums)
        for columns in (512, 500):
            one, two = (kd.empty((1000, columns), np.float32) for _ in range(2))
            module.softmax[1000, 128](one, two)
            module.softmax[1000, 128](one, one)
    PtxCompiler.compile = original  # type: ignore[method-assign]
    more = dataclasses.replace(specs[1], mapping=ElementMapping((8, 1, 1), 4, grid_stride="x"))
    return [*specs, more]


def count(artifact: Any) -> Counter[str]:
    text = artifact.text("sass")
    found = re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+ )?([A-Z][A-Z0-9.]*)", text)
    return Counter(each.split(".")[0] for each in found if not each.startswith("NOP"))


def main() -> None:
    for spec in launched():
        old = PtxCompiler("cuda").compile(spec)
        new = compile_regions(spec, arch="sm_90")
        one, two = count(old), count(new)
        print(
            f"{spec.unit.name:8s} items {spec.mapping.items[0]} "
            f"instructions {sum(one.values())} -> "
            f"{sum(two.values())}, registers {old.resources().registers} -> "
            f"{new.resources().registers}, PTX {'equal' if old.ptx == new.ptx else 'differs'}"
        )
        differing = {k: (one[k], two[k]) for k in sorted(one | two) if one[k] != two[k]}
        if differing:
            print("   ", differing)


if __name__ == "__main__":
    main()
