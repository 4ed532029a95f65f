"""Passes that ``KERNELDSL_DISABLE_PASSES`` names do not run, on any path to compiled code."""

from __future__ import annotations

import json
import pickle

import pytest

import kerneldsl as kd
from kerneldsl.errors import ArgumentValueError
from kerneldsl.placement.registry import optimizing_passes
from kerneldsl.tools.cli.app import run

_VARIABLE = "KERNELDSL_DISABLE_PASSES"
_SIGNATURE = "int64[::1], int64[::1]"


def _kernel() -> kd.Kernel:
    @kd.kernel
    def strided_sum(x, out):
        total = 0
        for i in range(kd.grid(1), x.size, kd.gridsize(1)):
            total += x[i]
        out[kd.grid(1)] = total

    return strided_sum


def _ptx(kernel: kd.Kernel) -> str:
    return str(kernel.ptx(_SIGNATURE, arch="sm_90"))


def test_each_pass_is_listed_once() -> None:
    names = [each.name for each in optimizing_passes()]
    assert "unroll-strides" in names
    assert len(set(names)) == len(names)


def test_a_pass_is_disabled_when_a_kernel_is_decorated(monkeypatch) -> None:
    before = _kernel()
    monkeypatch.setenv(_VARIABLE, " Unroll-Strides, narrow-addresses,, unroll-strides")
    disabled = _kernel()
    monkeypatch.delenv(_VARIABLE)
    assert before.options.compile.disabled_passes == ()
    assert disabled.options.compile.disabled_passes == ("narrow-addresses", "unroll-strides")
    assert _ptx(before) == _ptx(_kernel()) != _ptx(disabled)


def test_the_artifact_and_other_processes_have_the_same_code(monkeypatch) -> None:
    monkeypatch.setenv(_VARIABLE, "unroll-strides")
    kernel = _kernel()
    monkeypatch.delenv(_VARIABLE)
    text = kernel.artifact(_SIGNATURE, arch="sm_90", target="cuda").text("ptx")
    assert text == _ptx(kernel)
    assert _ptx(pickle.loads(pickle.dumps(kernel))) == text  # noqa: S301 -- it was made here


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("unroll-stride", "The closest name is unroll-strides"),
        ("narrow-addresses,zzz", "kerneldsl passes describes them"),
    ],
)
def test_an_unknown_name_is_refused(monkeypatch, text: str, remedy: str) -> None:
    monkeypatch.setenv(_VARIABLE, text)
    with pytest.raises(ArgumentValueError, match="which does not exist") as caught:
        _kernel()
    assert caught.value.value == text.rpartition(",")[2]
    assert caught.value.remedy == remedy
    assert "narrow-addresses" in str(caught.value.limit)


def test_the_command_line_lists_them(capsys) -> None:
    with pytest.raises(SystemExit, match="0"):
        run(["passes", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["passes"] == [each._asdict() for each in optimizing_passes()]
    with pytest.raises(SystemExit, match="0"):
        run(["passes"])
    shown = capsys.readouterr().out
    assert all(each.name in shown for each in optimizing_passes())
