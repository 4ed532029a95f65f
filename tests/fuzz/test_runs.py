"""Programs that end, or hang, the process that runs them are told from the others."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.fuzz import runs
from tests.fuzz.outcomes import Outcome, check_program
from tests.fuzz.program import Array, Program

_WORKER = """
import json, os, sys, time
first, count = int(sys.argv[1]), int(sys.argv[2])
for seed in range(first, first + count):
    print(json.dumps({"seed": seed, "target": "cpu", "variant": "plain"}), flush=True)
    if seed == 13:
        os.abort()
    if seed == 15:
        time.sleep(600)
    outcome = {"seed": seed, "target": "cpu", "variant": "plain", "kind": "right", "detail": ""}
    said = {"seed": seed, "seconds": 1, "features": ["x"], "outcomes": [outcome]}
    print(json.dumps(said), flush=True)
"""


def test_a_dead_process_counts_for_its_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others of the batch are run by another process."""
    monkeypatch.setattr(runs, "PATIENCE", 5)  # in which a process has begun
    worker = tmp_path / "worker.py"
    worker.write_text(_WORKER)
    command = [sys.executable, str(worker)]
    report = runs.run_programs(10, 10, targets=["cpu"], share=0, workers=2, command=command)
    assert report.programs == 10
    kinds = {(o.seed, o.kind, o.target, o.variant) for o in report.failures}
    assert kinds == {(13, "crash", "cpu", "plain"), (15, "hang", "cpu", "plain")}
    assert report.kinds["cpu", "plain", "right"] == 8
    assert "10 programs" in report.table()
    assert report.as_json()["programs"] == 10


_ADD = "import kerneldsl as kd\n@kd.kernel\ndef kernel(out):\n    out[kd.threadIdx.x] {} 1\n"
_OUT = (Array("out", "int64", ((4,), (4,)), "output"),)


def _outcomes(program: Program, expected: str) -> list[Outcome]:
    """Outcomes of a program on the CPU, compared with what another text gives."""
    import tests.fuzz.outcomes as outcomes

    right = Program(0, expected, _OUT, (1,), (4,))
    with pytest.MonkeyPatch.context() as patch:
        found = outcomes.expected_results(right)
        patch.setattr(outcomes, "expected_results", lambda program: found)
        return list(check_program(program, ["cpu"], share=0))


def test_kinds_of_outcomes() -> None:
    """Right, wrong, refused, and a divergent barrier that must be refused."""
    program = Program(0, _ADD.format("="), _OUT, (1,), (4,))
    assert [o.kind for o in _outcomes(program, _ADD.format("="))] == ["right"]
    (wrong,) = _outcomes(program, _ADD.format("+="))
    assert wrong.kind == "mismatch"
    assert "4 of 4 elements" in wrong.detail
    refused = Program(0, _ADD.format("= [2][0] +"), _OUT, (1,), (4,))
    (outcome,) = _outcomes(refused, _ADD.format("="))
    assert outcome.kind == "refused"
    assert "a list" in outcome.detail
    accepted = Program(0, _ADD.format("="), _OUT, (1,), (4,), is_divergent=True)
    (outcome,) = _outcomes(accepted, _ADD.format("="))
    assert (outcome.kind, outcome.detail) == ("mismatch", "the divergent barrier was accepted")


def test_programs_are_compiled_for_an_architecture() -> None:
    """Without a GPU: ptxas accepts what is right, and what is refused is an outcome."""
    program = Program(0, _ADD.format("="), _OUT, (1,), (4,))
    (outcome,) = check_program(program, ["sm_90"], share=0)
    assert (outcome.target, outcome.kind) == ("sm_90", "right")
    refused = Program(0, _ADD.format("= [2][0] +"), _OUT, (1,), (4,))
    (outcome,) = check_program(refused, ["sm_90"], share=0)
    assert outcome.kind == "refused"
    forall = Program(
        0, _ADD.format("=").replace("threadIdx.x", "grid(1)"), _OUT, extents=((4,), (4,))
    )
    (outcome,) = check_program(forall, ["sm_90"], share=0)
    assert outcome.kind == "right"
