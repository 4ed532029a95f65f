"""``kerneldsl explain``."""

from __future__ import annotations

import json

import pytest

from kerneldsl.tools.cli.app import run

_SOURCE = """
import kerneldsl as kd

@kd.kernel
def spread(a, out):
    x, y = kd.grid(2)
    if x < out.shape[1] and y < out.shape[0]:
        out[y, x] = a[x, y]
"""


@pytest.fixture
def place(tmp_path):
    path = tmp_path / "spread.py"
    path.write_text(_SOURCE)
    return f"{path}:spread"


def _run(*arguments):
    try:
        run(list(arguments))
    except SystemExit as end:
        return end.code or 0
    return 0


def test_a_kernel_is_explained_as_text_and_as_data(place, capsys):
    given = [place, "-s", "float32[:, ::1], float32[:, ::1]", "--block", "32,8", "-a", "sm_90"]
    sizes = ["--size", "a=96,64", "--size", "out=64,96"]
    assert _run("explain", *given, *sizes) == 0
    text = capsys.readouterr().out
    assert "coalescing: a warp's load of a touches 32 sectors" in text
    assert "out[y, x] = a[x, y]" in text
    assert _run("explain", *given, *sizes, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["block_dim"] == [32, 8, 1]
    assert found["grid_dim"] == [3, 8, 1]
    (load,) = (each for each in found["accesses"] if each["operation"] == "load")
    assert load["sectors_per_request"] == 32
    assert load["stride"] == "a.shape[1]"


def test_a_wrong_size_is_refused(place, capsys):
    signature = "float32[:, ::1], float32[:, ::1]"
    assert _run("explain", place, "-s", signature, "--size", "a=many") == 2
    assert "NAME=VALUE" in capsys.readouterr().err


def test_an_extent_is_that_of_what_is_assumed(place, capsys):
    given = [place, "-s", "float32[:, ::1], float32[:, ::1]", "--forall", "30,70", "--json"]
    assert _run("explain", *given) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["assumed"]["a"] == found["assumed"]["out"] == "(30, 70)"
    assert _run("explain", *given[:-1]) == 0
    assert " µs, less than a launch takes" in capsys.readouterr().out


def test_an_extent_has_its_own_grid(place, capsys):
    signature = "float32[:, ::1], float32[:, ::1]"
    assert _run("explain", place, "-s", signature, "--forall", "30,70", "--grid", "3") == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "forall=(30, 70) and grid=(3,). A launch by forall has the grid" in said
