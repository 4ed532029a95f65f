"""Each example of an intrinsic is compiled by the IR, to the instructions of the other path."""

from __future__ import annotations

import linecache
import re
from textwrap import indent
from typing import Any

import pytest

import kerneldsl as kd
from kerneldsl.language.intrinsics.examples import EXAMPLES
from targets.cuda.compile.compiler import compile_kernel
from targets.cuda.compile.regions.compile import compile_regions
from tests.ptx.helpers import specialize

#: Instructions and other words that show what an intrinsic is.
_WORDS = re.compile(
    r"\b(?:bar|barrier|shfl|vote|match|redux|atom|red|membar|fence|nanosleep|activemask|"
    r"ld\.\w+\.c[agsv]|st\.\w+\.(?:c[gs]|wt)|prmt|lop3|bfe|bfi|bfind|ex2|lg2|rcp|tanh|dp4a|popc|"
    r"clz|brev|shf|mul\.hi|rsqrt)[\w.]*"
)

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
    new = compile_regions(spec, arch="sm_90").ptx
    old = compile_kernel(spec, arch="sm_90").ptx
    assert set(_WORDS.findall(new)) == set(_WORDS.findall(old))
