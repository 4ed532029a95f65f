"""Lines and variables in the code of kernels, for profilers and debuggers."""

from __future__ import annotations

import re
from typing import Any

import pytest
from numba import float32

import kerneldsl as kd
from kerneldsl import cuda
from targets.cuda.compile import ptxas
from targets.cuda.compile.artifact import CudaArtifact
from targets.cuda.compile.cubin_file import make_cubin
from targets.cuda.compile.inlined_lines import with_calls
from tests.conformance.kernels import CASES, QUICK_CASES
from tests.ptx.helpers import compile_ptx, lower, newer_words, write
from tests.sanitizer.selection import intrinsics_of
from tests.support.cases import Case
from tests.support.extent import full_beyond

DEBUGGED: dict[str, Any] = {"debug": True, "optimize": False, "variables": True}
SIGNATURE = "float32[::1], int32"


@kd.func
def doubled(x, i):
    twice = x[i] * 2
    return twice + 1


@kd.func
def change(x, i):
    x[i] = doubled(x, i) - doubled(x, i + 1)


def kernel(x, n):
    i = kd.grid(1)
    mine = kd.shared.array(32, kd.float32)
    if i < n:
        flag = x[i] > 3
        pair = (i, x[i])
        number = 1
        if flag:
            number = 2.5
        rotated = complex(number, pair[1])
        mine[i] = rotated.imag
        change(x, i)


FIRST = kernel.__code__.co_firstlineno


def line_of(function: Any, statement: int) -> int:
    """The line of a statement of a device function, from 1."""
    return int(function.__wrapped__.__code__.co_firstlineno) + 1 + statement


def nodes_of(artifact: CudaArtifact) -> dict[str, str]:
    """The nodes of metadata of a module, by their numbers."""
    return dict(re.findall(r"^(!\d+) = (.*)$", artifact.text("llvm"), re.M))


def variables_of(nodes: dict[str, str], scope: str) -> dict[str, str]:
    """The types of the variables of a function, as nodes, by their names."""
    (function,) = (
        n for n, text in nodes.items() if "DISubprogram(" in text and f'name: "{scope}"' in text
    )
    found = [
        text
        for text in nodes.values()
        if "!DILocalVariable(" in text and f"scope: {function}," in text
    ]
    return {
        re.search(r'name: "(\w+)"', t)[1]: nodes[re.search(r"type: (!\d+)", t)[1]] for t in found
    }  # type: ignore[index]


def test_variables_have_names_types_and_memory() -> None:
    artifact = compile_ptx(kernel, SIGNATURE, "sm_90", **DEBUGGED)
    nodes = nodes_of(artifact)
    found = variables_of(nodes, "kernel")
    assert set(found) == {"x", "n", "i", "mine", "flag", "pair", "number", "rotated"}
    assert 'encoding: DW_ATE_signed, name: "int32", size: 32' in found["n"]
    assert 'encoding: DW_ATE_boolean, name: "bool", size: 8' in found["flag"]
    assert "DW_TAG_union_type" in found["number"]
    assert set(variables_of(nodes, "doubled")) == {"x", "i", "twice"}
    members = {
        name: [
            re.search(r'name: "(\w+)"', nodes[each])[1] for each in re.findall(r"!\d+", elements)
        ]  # type: ignore[index]
        for name in ("x", "mine", "number", "rotated")
        if (elements := nodes[re.search(r"elements: (!\d+)", found[name])[1]])  # type: ignore[index]
    }
    arrays = ["meminfo", "parent", "nitems", "itemsize", "data", "shape", "strides"]
    assert members == {
        "x": arrays,
        "mine": arrays,
        "number": ["_float64", "_int64"],
        "rotated": ["real", "imag"],
    }
    text = artifact.text("llvm")
    declared = re.findall(r'llvm.dbg.declare"?\(metadata (.*?) %"?([\w.]+?)"?, metadata', text)
    # Two calls of a function have a variable each.
    assert sum(name.partition(".")[0] == "twice" for _, name in declared) == 2
    assert re.search(r"file: !\d+, line: \d+, name: \"n\"", text)


def test_debuggers_get_them_in_machine_code() -> None:
    artifact = compile_ptx(kernel, SIGNATURE, "sm_90", **DEBUGGED)
    assert ".target sm_90, debug\n" in artifact.ptx
    cubin = ptxas.assemble(artifact.ptx, "sm_90").cubin
    assert make_cubin(artifact.ptx, "sm_90").count(b".debug_info") >= 1
    for name in (b"rotated", b"twice", b"test_debug_info.py", b".debug_line"):
        assert name in cubin
    assert artifact.resources().local_bytes > 0


def test_a_function_of_other_code_is_the_function_itself() -> None:
    def sums(first, second):
        both = first + second
        return both

    ptx, _ = cuda.compile(sums, float32(float32, float32), debug=True, opt=False, cc=(9, 0))
    assert ".target sm_90, debug\n" in ptx
    assert re.findall(r'\.file\s+\d+ "(.*)"', ptx) == [__file__]
    for name in ("sums", "first", "second", "both"):  # which are bytes
        assert "".join(f".b8 {byte}\n" for byte in (*name.encode(), 0)) in ptx
    first = sums.__code__.co_firstlineno
    assert {int(n) for n in re.findall(r"\.loc\s+1 (\d+) ", ptx)} - {0} <= {
        first,
        first + 1,
        first + 2,
    }
    assert ptxas.assemble(ptx, "sm_90", is_whole=False).cubin


def test_optimized_code_has_no_variables_and_is_not_for_debuggers() -> None:
    for options in ({"debug": True}, {"lineinfo": True}, {}):
        artifact = compile_ptx(kernel, SIGNATURE, "sm_90", **options)
        assert ", debug" not in artifact.ptx
        assert "DILocalVariable" not in artifact.text("llvm")
        assert bool(options) == (".loc" in artifact.ptx)
        assert "__local_depot" not in artifact.ptx


def test_variables_are_in_memory_without_optimization() -> None:
    artifact = compile_ptx(kernel, SIGNATURE, "sm_90", optimize=False)
    assert "__local_depot0" in artifact.ptx
    assert ".loc\t" not in artifact.ptx
    assert all(each.text == "disabled" for each in artifact.passes)


def test_lines_of_inlined_functions_have_those_of_their_calls() -> None:
    artifact = compile_ptx(kernel, SIGNATURE, "sm_90", lineinfo=True)
    found: dict[tuple[str, str, str], tuple[str, ...]] = {}
    pattern = (
        r"^\t\.loc\t(\d+) (\d+) (\d+)(?:, function_name (\S+), inlined_at (\d+) (\d+) (\d+))?$"
    )
    for row in re.findall(pattern, artifact.ptx, re.M):
        if row[3]:
            assert row[4:] in found, "a call comes first"
        found[row[:3]] = row[4:] if row[3] else ()
    calls = {place for place in found if int(place[1]) == line_of(doubled, 1)}
    assert {found[each][1] for each in calls} == {str(line_of(change, 1))}
    assert len(calls) == 2  # one for each call
    (outer,) = {found[found[each]] for each in calls}
    assert int(outer[1]) == FIRST + 11
    names = re.findall(r"^(\$L__info_string\d+):\n((?:\.b8 \d+\n)+)", artifact.ptx, re.M)
    texts = {bytes(map(int, re.findall(r"\d+$", rows, re.M))) for _, rows in names}
    assert texts == {b"change\0", b"doubled\0"}
    assert ptxas.assemble(artifact.ptx, "sm_90").resources["kernel"].registers


def test_older_versions_of_ptx_have_lines_alone() -> None:
    artifact = compile_ptx(kernel, SIGNATURE, "sm_75", ptx_version="6.3", lineinfo=True)
    assert ".loc" in artifact.ptx
    assert "inlined_at" not in artifact.ptx


def test_files_that_ptx_does_not_name_are_left_out() -> None:
    llvm = (
        '!1 = !DIFile(filename: "a.py", directory: "/b")\n'
        '!2 = distinct !DISubprogram(name: "f", file: !1)\n'
        "!3 = distinct !DILocation(line: 4, column: 1, scope: !2)\n"
        "!4 = !DILocation(line: 9, column: 2, scope: !2, inlinedAt: !3)\n"
    )
    line, file = "\t.loc\t1 9 2\n", '\t.file\t1 "/b/a.py"\n'
    assert with_calls(line + '\t.file\t1 "/c.py"\n', llvm, (7, 8)).startswith(line)
    written = with_calls(line + file, llvm, (7, 8))
    assert written.startswith(
        "\t.loc\t1 4 1\n\t.loc\t1 9 2, function_name $L__info_string0, inlined_at 1 4 1\n"
    )


@pytest.mark.parametrize("options", [{"optimize": False}, DEBUGGED], ids=["plain", "debugged"])
@pytest.mark.parametrize("case", full_beyond(CASES[::40], QUICK_CASES[::30]), ids=lambda c: c.name)
def test_cases_assemble_without_optimization(case: Case, options: dict[str, Any]) -> None:
    if intrinsics_of(case.kernel) & newer_words("sm_90"):
        pytest.skip("sm_90 is too old for it")
    lowered = lower(case.kernel, case.kinds, case.mode, block=case.block_dim, **options)
    artifact = write(lowered, "sm_90")
    assert ptxas.assemble(artifact.ptx, "sm_90", is_whole=not artifact.binaries).cubin


@kd.func
def summed(a, b):
    total = a + b
    return total * 2


@kd.kernel
def of_two_types(x, y, out):
    i = kd.grid(1)
    out[i] = summed(x[i], 1) + summed(y[i], 2.5) + summed(x[i], 3)


def test_a_function_is_called_with_arguments_of_two_types() -> None:
    """LLVM ends the process where a function has two arguments of one number."""
    artifact = compile_ptx(
        of_two_types, "int32[::1], float64[::1], float64[::1]", "sm_90", **DEBUGGED
    )
    nodes = nodes_of(artifact)
    found = [text for text in nodes.values() if "!DILocalVariable(" in text and 'name: "a"' in text]
    assert sorted("arg: 1" in text for text in found) == [False, True]
