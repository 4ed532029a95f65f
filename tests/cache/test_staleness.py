"""Whatever is edited between two runs, the second one computes with what is there now."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.cache.programs import run_script
from tests.support.extent import sample

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="object code is kept on Linux alone, so nothing can be stale"
)
MAIN = """
import numpy as np
import kerneldsl as kd
from helpers import helper
import settings

LIMIT = 4
TABLE = np.array([1.0, 2.0])
TABLE.flags.writeable = False

def close_over(offset):
    @kd.kernel
    def kernel(x, out):
        i = kd.grid(1)
        if i < LIMIT:
            out[i] = helper(x[i]) * settings.SCALE + offset + TABLE[i % 2] + local(i)
    return kernel

@kd.func
def local(i, step=100):
    return i * step

kernel = close_over(0.5)
x, out = np.arange(6.0), np.zeros(6)
with kd.use("cpu"):
    kernel.forall(6)(x, out)
result = out.tolist()
"""
HELPERS = """
import kerneldsl as kd

FACTOR = 3

@kd.func
def inner(x):
    return x * FACTOR

@kd.func
def helper(x):
    return inner(x) + 1
"""
SETTINGS = "SCALE = 10\n"


def expected(
    *, limit=4, table=(1.0, 2.0), offset=0.5, factor=3, plus=1, scale=10, step=100
) -> list[float]:
    values = [(i * factor + plus) * scale + offset + table[i % 2] + i * step for i in range(limit)]
    return [*map(float, values), *[0.0] * (6 - limit)]


def write(folder: Path, *, main=MAIN, helpers=HELPERS, settings=SETTINGS) -> Path:
    (folder / "helpers.py").write_text(helpers)
    (folder / "settings.py").write_text(settings)
    (folder / "main.py").write_text(main)
    return folder / "main.py"


EDITS = {
    "a global": ({"main": MAIN.replace("LIMIT = 4", "LIMIT = 5")}, {"limit": 5}),
    "a closure": ({"main": MAIN.replace("over(0.5)", "over(0.7)")}, {"offset": 0.7}),
    "an array": ({"main": MAIN.replace("[1.0, 2.0]", "[1.0, 7.0]")}, {"table": (1.0, 7.0)}),
    "a callee": ({"main": MAIN.replace("i * step", "i * step + 0")}, {}),
    "a default": ({"main": MAIN.replace("step=100", "step=200")}, {"step": 200}),
    "a callee in another file": ({"helpers": HELPERS.replace("+ 1", "+ 2")}, {"plus": 2}),
    "its callee": (
        {"helpers": HELPERS.replace("return x * FACTOR", "return x * FACTOR * 2 / 2")},
        {},
    ),
    "a constant there": ({"helpers": HELPERS.replace("R = 3", "R = 4")}, {"factor": 4}),
    "an attribute of a module": ({"settings": "SCALE = 20\n"}, {"scale": 20}),
}


def test_edits(tmp_path: Path) -> None:
    """One after the other on one cache, each followed by the first state again."""
    first = run_script(write(tmp_path))
    assert first["result"] == expected()
    for name, (files, values) in sample(list(EDITS.items()), 1):
        found = run_script(write(tmp_path, **files))
        assert found["result"] == expected(**values), name
        assert found["misses"] == {"absent": 1}, name
    back = run_script(write(tmp_path))
    assert (back["result"], back["hits"]) == (expected(), 1)


@pytest.mark.full
def test_edits_that_keep_size_and_time(tmp_path: Path) -> None:
    """Python's own caches of source go by size and time; this one does not look at them."""
    changed = {
        "main": MAIN.replace("over(0.5)", "over(0.7)"),
        "helpers": HELPERS.replace("R = 3", "R = 4"),
        "settings": "SCALE = 20\n",
    }
    for values, files in (({}, {}), ({"offset": 0.7, "factor": 4, "scale": 20}, changed)):
        write(tmp_path, **files)
        for name in ("main.py", "helpers.py", "settings.py"):
            os.utime(tmp_path / name, (1_600_000_000, 1_600_000_000))
        assert run_script(tmp_path / "main.py")["result"] == expected(**values)


@pytest.mark.full
def test_edits_that_change_nothing_keep_the_entry(tmp_path: Path) -> None:
    run_script(write(tmp_path))
    main = "# a comment\n\n" + MAIN.replace(
        "    return i * step", "    # one more\n    return i * step"
    )
    helpers = '"""A docstring."""\n\n' + HELPERS
    found = run_script(
        write(tmp_path, main=main, helpers=helpers, settings="OTHER = 1\n" + SETTINGS)
    )
    assert (found["result"], found["hits"]) == (expected(), 1)


OPTIONS = """
import numpy as np
import kerneldsl as kd

@kd.kernel{options}
def kernel(a, x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] - {index}

x, out = np.full(5, 1.0 + 2.0**-52), np.zeros(5)
with kd.use("cpu"):
    kernel.forall(5)(1.0 + 2.0**-52, x, out)
result = [out[0].hex(), kernel.options.compile.fastmath]
"""


@pytest.mark.full
def test_options_and_decorators(tmp_path: Path) -> None:
    """Whether a product and a difference are one operation is seen in the last bit."""
    forms = [
        "",
        "(contract=False)",
        "(fastmath=True)",
        "(wraparound=False)",
        '("f8, f8[:], f8[:]")',
    ]
    cold = {}
    forms = sample(forms, 2)
    for form in forms:
        text = OPTIONS.format(options=form, index="1.0")
        cold[form] = run_script(tmp_path / "script.py", text)
        assert cold[form]["misses"] == {"absent": 1}, form
    for form in forms:
        warm = run_script(tmp_path / "script.py", OPTIONS.format(options=form, index="1.0"))
        assert (warm["result"], warm["hits"]) == (cold[form]["result"], 1), form


NOTEBOOK = """
import linecache
import numpy as np
import kerneldsl as kd

def cell(number, text):
    name = f"<cell {{number}}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    exec(compile(text, name, "exec"), globals())

KERNEL = '''
@kd.kernel
def kernel(out):
    i = kd.grid(1)
    out[i] = WIDTH * {factor}
'''
result = []
with kd.use("cpu"):
    for number, (width, text) in enumerate([(3, KERNEL), (4, KERNEL), (4, KERNEL + "# again"),
                                            (4, KERNEL.replace("WIDTH *", "WIDTH +"))]):
        cell(f"a{{number}}", f"WIDTH = {{width}}")
        cell(f"b{{number}}", text)
        out = np.zeros(2)
        kernel.forall(2)(out)
        result.append(out[1])
"""


@pytest.mark.full
def test_a_cell_that_is_run_again(tmp_path: Path) -> None:
    for hits, factor, results in (
        (1, 5, [15.0, 20.0, 20.0, 9.0]),
        (4, 5, [15.0, 20.0, 20.0, 9.0]),
        (1, 6, [18.0, 24.0, 24.0, 10.0]),
    ):
        found = run_script(tmp_path / "notebook.py", NOTEBOOK.format(factor=factor))
        assert found["result"] == results
        assert found["hits"] == hits, "the third cell is the second one with a comment"


ARRAY = """
import numpy as np
import kerneldsl as kd
table = np.array([1.0, 2.0])
table.flags.writeable = False

@kd.kernel
def kernel(out):
    i = kd.grid(1)
    out[i] = table[i]

kernel_state = kernel._dispatcher.state()
import targets.cpu.regions.compile as compiler
read_kernel = compiler.read_kernel
def compile_and_change(*args, **options):
    table.flags.writeable = True
    table[0] = {during}
    table.flags.writeable = False
    return read_kernel(*args, **options)
compiler.read_kernel = compile_and_change
out = np.zeros(2)
with kd.use("cpu"):
    kernel.forall(2)(out)
result = out.tolist()
"""


@pytest.mark.full
def test_an_array_that_changes_while_it_is_compiled(tmp_path: Path) -> None:
    """Code is made from a copy of it, so what is kept is of the key's contents."""
    changed = run_script(tmp_path / "script.py", ARRAY.format(during=9.0))
    assert changed["result"] == [1.0, 2.0]
    assert (changed["hits"], changed["writes"]) == (0, 1)
    found = run_script(tmp_path / "script.py", ARRAY.format(during=9.0))
    assert found["result"] == [1.0, 2.0]
    assert (found["hits"], found["writes"]) == (1, 0)


def test_another_machines_cache(tmp_path: Path, folder: Path) -> None:
    """Export, import into an empty folder, and no compiler is needed there."""
    from kerneldsl import cache

    first = run_script(write(tmp_path))
    assert cache.export(tmp_path / "kernels.tar") == 1
    there = {"KERNELDSL_CACHE_DIR": str(tmp_path / "there")}
    archive = str(tmp_path / "kernels.tar")
    text = f"import kerneldsl as kd\nresult = kd.cache.import_({archive!r}).imported\n"
    assert run_script(tmp_path / "import.py", text, **there)["result"] == 1
    found = run_script(tmp_path / "main.py", **there)
    assert (found["result"], found["hits"], found["modules"]) == (first["result"], 1, ["llvmlite"])
    assert cache.entries()[0].components["processor"]


@pytest.mark.full
def test_another_processor_finds_nothing(tmp_path: Path) -> None:
    """An entry of a machine with other features is there, and not for this one."""
    first = run_script(write(tmp_path))
    # As if this were another machine: the key is of what LLVM says of the processor.
    text = "import llvmlite.binding as b\nb.get_host_cpu_name = lambda: 'another'\n" + MAIN
    found = run_script(write(tmp_path, main=text))
    assert found["result"] == first["result"]
    assert found["misses"] == {"absent": 1}
