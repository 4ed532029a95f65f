"""What optimizing passes did to a kernel, and why they did not: recorded while it is compiled."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.contract import Artifact, PassRemark, UnusableCodeError
from targets.cuda.compile.artifact import CudaArtifact
from targets.cuda.compile.stored import dump, restore
from tests.ptx.helpers import compile_ptx
from tests.ptx.pass_kernels import ARCH, PASS_KERNELS, artifact_for_pass

_FIRST = "int64[::1], int64[::1]"


def _of(artifact: Artifact, name: str) -> list[PassRemark]:
    return [each for each in artifact.passes if each.name == name]


#: What each pass does to the kernel that it is for.
_DONE = {
    "unroll-strides": "1 loop unrolled by four",
    "unroll-array-loops": "3 loops unrolled in full, for a local array",
    "unroll-divisors": "1 loop unrolled, as it divides by what it multiplies",
    "unroll-short-loops": "1 short loop unrolled in full",
    "unroll-arithmetic": "1 loop unrolled by four, as it only computes",
    "narrow-variables": "1 variable kept in 32 bits",
    "share-extents": "2 arrays given the lengths of the extent",
    "multiply-by-warpgroups": "1 product in a ring of 8 slots",
    "overlap-products": "1 loop with two products at the same time",
    "multiply-by-warps": "1 product computed by m16n8k16.bf16",
    "load-factors-early": "2 factors loaded 3 iterations early",
    "simplify-divisions": "2 divisions computed without signs if possible",
    "guard-roots": "1 square root computed only where the kernel does",
    "pack-halves": "4 words with two halves computed together",
    "coalesce-copies": "1 value computed without a copy",
    "merge-exits": "1 loop ended by one branch instead of two",
    "merge-guards": "1 guard tested together with the one before it",
    "unroll-remainders": "1 loop over a remainder unrolled by ptxas",
    "count-loops-down": "2 loops counted down to 0",
    "narrow-counters": "1 loop counted in 32 bits if the number of iterations fits",
    "multiply-by-bits": "8 choices computed by a multiplication",
    "widen-products": "3 products of 16 bits computed in 32",
    "chain-affine-steps": "3 numbers computed from the one before",
    "narrow-maxima": "7 results of max computed in 32 bits",
    "narrow-addresses": "2 addresses computed in 32 bits",
    "step-pointers": "4 addresses stepped without a common base",
    "recompute-late": "4 values computed again after a loop",
    "divide-late": "1 division or root computed right before its use",
    "load-early": "1 load moved before a division or a square root",
    "branch-choices": "1 choice computed only where it is chosen",
    "order-indices": "1 block number read after the number of threads",
    "move-exchanges": "12 exchanges of a choice and a move",
    "inline-linked": "1 call inlined",
}


@pytest.mark.parametrize("name", PASS_KERNELS)
def test_a_pass_says_what_it_did(name: str) -> None:
    remarks = _of(artifact_for_pass(name), name)
    assert _DONE[name] in [each.text for each in remarks]
    (found,) = (each for each in remarks if each.text == _DONE[name])
    assert found.count == int(found.text.split()[0])
    assert not found.is_missed
    assert _of(artifact_for_pass(name, name), name) == [
        PassRemark(name, 0, "disabled", is_missed=True)
    ]


@pytest.mark.parametrize("name", ["unroll-strides", "unroll-array-loops", "narrow-variables"])
def test_passes_on_trees_know_their_lines(name: str) -> None:
    function, _ = PASS_KERNELS[name]
    found = next(each for each in _of(artifact_for_pass(name), name) if not each.is_missed)
    texts = [each.line.strip() for each in found.where]
    if name == "narrow-variables":
        assert texts == ["step = kd.blockDim.x // 2", "step //= 2"]
    else:
        assert len(texts) == found.count
        assert all(text.startswith("for ") for text in texts)
    assert all(each.function == function.__qualname__ for each in found.where)
    assert str(found).endswith(f"{found.where[-1].lineno})")


def refused(x, out):
    t = kd.grid(1)
    total = 0
    for i in range(t, x.size, x[0]):
        total += x[i]
    for i in range(t, x.size, kd.gridsize(1)):
        out[i] = i
    for i in range(t, x.size, kd.gridsize(1)):
        kd.atomic.add(out, i, x[i])
    for i in range(t, x.size, kd.gridsize(1)):
        for k in range(3):
            total += x[i + k]
    for i in range(t, x.size, kd.gridsize(1)):
        total += x[i] + x[i + 1] + x[i + 2] + x[i + 3] + x[i + 4]
    step = kd.blockDim.x
    while t < x.size:
        step = x[t]
        t += step
    out[0] = total
    out[1] = t


def test_a_pass_says_why_it_did_not() -> None:
    remarks = _of(compile_ptx(refused, _FIRST, ARCH), "unroll-strides")
    assert all(each.is_missed for each in remarks)
    first = refused.__code__.co_firstlineno
    found = {place.lineno - first: each.text for each in remarks for place in each.where}
    assert found == {
        3: "1 loop not unrolled: the stride is not known to be positive",
        5: "1 loop not unrolled: no load of an element",
        7: "2 loops not unrolled: statements other than assignments and conditions",
        9: "2 loops not unrolled: statements other than assignments and conditions",
        12: "1 loop not unrolled: more than 4 loads",
        15: "1 loop not unrolled: the end or the stride changes in the loop",
    }


def of_data(x, out):
    own = kd.local.array(8, np.int64)
    for k in range(8):
        own[k] = x[k]
    out[0] = own[x[0]]


def test_arrays_that_data_indexes_stay_in_memory() -> None:
    (found,) = _of(compile_ptx(of_data, _FIRST, ARCH), "unroll-array-loops")
    assert found.text == "1 local array kept in memory: an index of it is loaded"


def test_arrays_of_unknown_sizes() -> None:
    function, signature = PASS_KERNELS["narrow-addresses"]
    found = _of(compile_ptx(function, signature, ARCH), "narrow-addresses")
    assert [each.count for each in found if each.is_missed] == [5]


def _restored(artifact: CudaArtifact, **changes: object) -> CudaArtifact:
    sections = dump(artifact)
    assert sections is not None
    metadata = json.loads(sections["metadata"]) | changes
    sections["metadata"] = json.dumps(metadata).encode()
    specialization = replace(artifact.specialization, ptx_version="8.7")
    return restore(specialization, sections, artifact.arch)


@pytest.mark.parametrize("name", PASS_KERNELS)
def test_cached_code_has_the_remarks(name: str) -> None:
    artifact = artifact_for_pass(name)
    assert artifact.passes
    assert _restored(artifact).passes == artifact.passes


_SOURCE = """import kerneldsl as kd

def strided(x, out):
    total = 0
    for i in range(kd.grid(1), x.size, kd.gridsize(1)):
        total += x[i]
    out[kd.grid(1)] = total
"""


def test_cached_remarks_are_of_the_lines_of_this_source(tmp_path) -> None:
    artifacts = []
    for name, text in (("one", _SOURCE), ("other", _SOURCE.replace("0\n", "0\n    # sum\n"))):
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        namespace: dict[str, Any] = {"__name__": name}
        exec(compile(text, str(path), "exec"), namespace)
        artifacts.append(compile_ptx(namespace["strided"], _FIRST, ARCH))
    compiled, edited = artifacts
    sections = dump(compiled)
    assert sections is not None
    found = restore(edited.specialization, sections, ARCH)
    assert found.passes == edited.passes
    assert [_of(each, "unroll-strides")[0].where[0].lineno for each in artifacts] == [5, 6]


@pytest.mark.parametrize(
    "passes",
    [
        None,
        7,
        [["a"]],
        [["a", 1, "b", [[-1]], False]],
        [["a", 1, "b", [["0", 0]], False]],
        [["a", "x", "b", [], False]],
    ],
)
def test_damaged_remarks(passes: object) -> None:
    with pytest.raises(UnusableCodeError):
        _restored(artifact_for_pass("unroll-strides"), passes=passes)


def test_a_place_that_is_no_statement_is_left_out() -> None:
    rows = [["a", 1, "b", [[0, 10**6], [0, 0]], False]]
    (found,) = _restored(artifact_for_pass("unroll-strides"), passes=rows).passes
    assert len(found.where) == 1


@kd.kernel
def strided_sum(x, out):
    total = 0
    for i in range(kd.grid(1), x.size, kd.gridsize(1)):
        total += x[i]
    out[kd.grid(1)] = total


def test_explain_shows_them() -> None:
    pytest.importorskip("sympy")
    found = strided_sum.explain(_FIRST, arch=ARCH)
    line = strided_sum.function.__code__.co_firstlineno + 3
    assert f"unroll-strides: 1 loop unrolled by four (line {line})" in str(found)
    assert "narrow-addresses: 3 addresses computed in 32 bits" in str(found)
    told = json.loads(json.dumps(found.to_dict()))["passes"]
    first = next(each for each in told if each["name"] == "unroll-strides")
    assert first == {
        "name": "unroll-strides",
        "count": 1,
        "text": "1 loop unrolled by four",
        "where": [{"file": __file__, "line": line}],
        "is_missed": False,
    }
    assert "unrolled by four" in found._repr_html_()


def test_explain_of_large_arrays_and_without_compiling() -> None:
    pytest.importorskip("sympy")
    sizes = {"x": 2**31, "out": 1024}
    found = strided_sum.explain(_FIRST, arch=ARCH, grid=4, sizes=sizes)
    assert "computed in 64 bits: no array is known" in str(found)
    found = strided_sum.explain(_FIRST, arch=ARCH, occupancy=False)
    assert found.passes is None
    assert found.to_dict()["passes"] is None
