"""Each example of an intrinsic is compiled by the IR, to instructions that show it."""

from __future__ import annotations

import linecache
import re
from textwrap import indent
from typing import Any

import pytest

import kerneldsl as kd
from kerneldsl.language.intrinsics.examples import EXAMPLES
from tests.ptx.helpers import specialize
from tests.support.cuda_regions import compile_regions

#: Beginnings of names to the instructions that show the intrinsic.
_INSTRUCTIONS = {
    "syncthreads": r"bar|barrier\.cta",
    "syncwarp": r"bar\.warp",
    "shfl_": r"shfl\.sync",
    "ballot_sync": r"vote\.sync\.ballot",
    "match_": r"match\.\w+\.sync",
    "reduce_": r"redux\.sync|shfl\.sync",
    "atomic.": r"atom|red\.|(?:ld|st)\.relaxed",
    "threadfence": r"membar|fence",
    "nanosleep": r"nanosleep",
    "load": r"ld\.global\.cs",
    "store": r"st\.global\.cs",
    "nv.": r"prmt|lop3|bfe|bfi|bfind|ex2|lg2|rcp|tanh",
    "shared.array": r"\.shared",
}
#: A device has no ``reshape``; an example uses it.
_NAMES = [name for name, row in EXAMPLES.items() if "reshape" not in row[0]]


def _kernel(name: str) -> Any:
    body = EXAMPLES[name][0]
    parameters = "out, state" if "state" in body else "out"
    text = f"def example({parameters}):\n    t = kd.threadIdx.x\n{indent(body, '    ')}\n"
    filename = f"<example of {name}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    namespace: dict[str, Any] = {"kd": kd, "__name__": __name__}
    exec(compile(text, filename, "exec"), namespace)
    return namespace["example"]


@pytest.mark.parametrize("name", _NAMES)
def test_the_example_is_compiled(name: str) -> None:
    dtype = (*EXAMPLES[name], "int64")[2]
    signature = f"{dtype}[::1]" + ", int64[::1]" * ("state" in EXAMPLES[name][0])
    spec = specialize(_kernel(name), signature, block=(32, 1, 1))
    ptx = compile_regions(spec, arch="sm_90").ptx
    for beginning, instruction in _INSTRUCTIONS.items():
        if name.startswith(beginning):
            assert re.search(instruction, ptx)
    assert ".visible .entry" in ptx
