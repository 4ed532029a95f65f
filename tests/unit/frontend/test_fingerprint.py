"""The identity of a kernel."""

from __future__ import annotations

import ast
import linecache
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.errors import UnsupportedConstructError
from kerneldsl.frontend.fingerprint import _tree_text, fingerprint
from kerneldsl.frontend.normalize import make_unit

HEAD = """
import numpy as np
import kerneldsl as kd
class Func:
    def __init__(self, function):
        self.__kerneldsl_function__ = function
"""
KERNEL = """
N = 4
@Func
def helper(x):
    return x + 1
def kernel(x):
    s = kd.shared.array(N, np.float32)
    x[kd.grid(1)] = helper(x[0]) * N
"""


def of(text: str) -> str:
    filename = f"<fingerprint {abs(hash(text))}>"
    text = HEAD + textwrap.dedent(text)
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    scope: dict[str, Any] = {"__name__": "m"}
    exec(compile(text, filename, "exec"), scope)
    return fingerprint(make_unit(scope["kernel"]))


def test_what_does_not_matter() -> None:
    same = [
        "\n\n# moved\n" + KERNEL,
        KERNEL.replace("(x):", "(x):  # a comment"),
        KERNEL.replace("def kernel(x):", "def kernel(x: int) -> None:\n    '''Doc.'''"),
        KERNEL.replace("* N", "  *   (N)"),
    ]
    assert {of(text) for text in same} == {of(KERNEL)}
    assert len(of(KERNEL)) == 64


def test_it_is_the_same_in_every_version_of_python() -> None:
    # Code that packages ship is found by it.
    text = KERNEL + "    for i in range(N):\n        x[i] = x[i] if i else (x[i], 1.5)[0]\n"
    assert of(text)[:16] == "15984774cd2ee02c"


def test_what_matters() -> None:
    different = [
        KERNEL,
        KERNEL.replace("N = 4", "N = 5"),
        KERNEL.replace("N = 4", "N = np.int64(4)"),
        KERNEL.replace("x + 1", "x + 2"),
        KERNEL.replace("x + 1", "x + 1.0"),
        KERNEL.replace("np.float32", "np.float64"),
        KERNEL.replace("grid(1)", "gridsize(1)"),
        KERNEL.replace("* N", "+ N"),
        KERNEL.replace("* N", "* np.sqrt(N)"),
        KERNEL.replace("* N", "* np.cbrt(N)"),
    ]
    assert len({of(text) for text in different}) == len(different)


def test_it_is_the_same_in_another_process(tmp_path: Path) -> None:
    path = tmp_path / "elsewhere.py"
    path.write_text(
        HEAD
        + KERNEL
        + "from kerneldsl.frontend.fingerprint import fingerprint\n"
        + "from kerneldsl.frontend.normalize import make_unit\n"
        + "print(fingerprint(make_unit(kernel)))\n"
    )
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, check=True, env=_environment()
    )
    assert done.stdout.strip() == of(KERNEL)


def _environment() -> dict[str, str]:
    import os

    import kerneldsl.frontend

    root = str(Path(kerneldsl.frontend.__file__).parents[2])
    return {**os.environ, "PYTHONPATH": root, "PYTHONHASHSEED": "7"}


def test_a_chain_longer_than_the_recursion_limit() -> None:
    branches = "".join(f"    elif x[0] == {n}:\n        x[1] = {n}\n" for n in range(2000))
    tree = ast.parse(f"def kernel(x):\n    if x[0] > 0:\n        pass\n{branches}")
    text = _tree_text(tree)
    assert text.count("If(") == 2001
    assert text.count("(") == text.count(")")


def test_a_chain_that_is_too_long_is_refused() -> None:
    branches = "".join(f"    elif x[0] == {n}:\n        x[1] = {n}\n" for n in range(300))
    text = f"def kernel(x):\n    if x[0] == -1:\n        x[1] = 0\n{branches}"
    linecache.cache["<chain>"] = (len(text), None, text.splitlines(keepends=True), "<chain>")
    scope: dict[str, Any] = {"__name__": "m"}
    exec(compile(text, "<chain>", "exec"), scope)
    with pytest.raises(UnsupportedConstructError, match="a chain of elif, nests too deeply"):
        kd.kernel(scope["kernel"]).forall(1)(np.zeros(2))
