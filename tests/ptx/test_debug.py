"""Debug mode: checks of indices, assert and raise; and that nothing of it remains without."""

from __future__ import annotations

import re

import pytest

import kerneldsl as kd
from kerneldsl.lowering.faults import FAULT_FIELDS
from tests.conformance.kernels import DEBUG_CASES, QUICK_CASES
from tests.ptx.helpers import assemble_together, body_of, compile_ptx, lower, write
from tests.support.cases import Case
from tests.support.extent import full_beyond


@kd.func
def put(x, i, v):
    assert v > 0, "must be positive"
    x[i] = v


def faults(x, out):
    i = kd.grid(1)
    if x[i] > 3:
        raise ValueError("too large")
    put(out, i, x[i])
    kd.atomic.add(out, i + 1, 1)


_SIGNATURE = "float32[::1], float32[::1]"


def test_faults_are_recorded_once_and_end_the_thread() -> None:
    artifact = compile_ptx(faults, _SIGNATURE, debug=True)
    body = body_of(artifact)
    assert artifact.layout.parameters[-1].name == "kd_fault.data"
    assert body.count("cas.b32") >= 4  # index, raise, assert, atomic
    stored = {int(n) for n in re.findall(r"st\.global\S* \t\[%rd\d+\+(\d+)\]", body)}
    assert {o for name, _, o in FAULT_FIELDS if name in ("axis", "index", "bound")} <= stored
    assert artifact.resources().registers


def test_sites_name_kind_message_and_place() -> None:
    sites = compile_ptx(faults, _SIGNATURE, debug=True).fault_table.sites
    first = faults.__code__.co_firstlineno
    by_kind = {(s.kind, s.message, s.location.lineno) for s in sites}
    assert (ValueError, "too large", first + 3) in by_kind
    assert (IndexError, "", first + 2) in by_kind
    line = put.__wrapped__.__code__.co_firstlineno
    assert (AssertionError, "must be positive", line + 2) in by_kind
    assert any(s.array == "out" for s in sites)


def test_sites_are_numbered_through_called_functions() -> None:
    artifact = compile_ptx(faults, _SIGNATURE, debug=True)
    stored = {int(n) for n in re.findall(r"\{2, (\d+)\}", body_of(artifact))}
    # The second check of x[i] is known to succeed where it is reached.
    assert stored == set(range(len(artifact.fault_table.sites))) - {2}
    assert artifact.fault_table.sites[2].array == "x"


def test_without_debug_mode_nothing_remains() -> None:
    artifact = compile_ptx(faults, _SIGNATURE)
    assert artifact.fault_table.sites == ()
    assert "cas" not in body_of(artifact)
    assert all("fault" not in p.name for p in artifact.layout.parameters)


def test_a_negative_index_is_a_fault_when_wrapping_is_switched_off() -> None:
    def read(x, where, out):
        i = kd.grid(1)
        out[i] = x[where[i]]

    signature = "float32[::1], int64[::1], float32[::1]"
    wrapping = body_of(compile_ptx(read, signature, debug=True))
    strict = body_of(compile_ptx(read, signature, debug=True, wraparound=False))
    assert wrapping.count("setp") > strict.count("setp")


@kd.func
def both(pair):
    return pair[1], pair[0]


def of_tuples(x, numbers, out):
    i = kd.grid(1)
    mixed = ((5, 6), x)
    words = kd.random.philox(1, i)
    swapped = both(numbers)
    out[i] = words[0] + mixed[1][i] + numbers[1][i % 2] + swapped[0][1] + swapped[1]


def test_tuples_are_told_from_arrays() -> None:
    signature = "int64[::1], (int64, (int64, int64)), int64[::1]"
    artifact = compile_ptx(of_tuples, signature, debug=True)
    assert assemble_together([artifact], "sm_75") == 1


@pytest.mark.parametrize("case", full_beyond(QUICK_CASES, DEBUG_CASES), ids=lambda c: c.name)
def test_cases_compile_and_assemble(case: Case) -> None:
    lowered = lower(case.kernel, case.kinds, case.mode, block=case.block_dim, debug=True)
    assert assemble_together([write(lowered, "sm_90")], "sm_90") == 1
