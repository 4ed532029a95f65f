"""Records of tuning: shown, written as T4 documents, taken in on another machine, and shipped."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import kerneldsl as kd
from kerneldsl.errors import ArgumentValueError
from kerneldsl.launch import measured
from kerneldsl.launch.measured import Measured, PlanChoices
from kerneldsl.tools.cli.app import make_app
from kerneldsl.tuning.records import LaunchRecords, merge_records, read_records
from kerneldsl.tuning.session import Session
from kerneldsl.tuning.t4 import read_documents, to_document, write_documents

FAST = {"block": 64, "tile": 2}
MODULE = """
import numpy as np
import kerneldsl as kd

def make(factor):
    @kd.kernel(space=kd.Space(block=[32, 64], tile=[1, 2], covers=lambda c: c.block * c.tile))
    def scale(x, *, block, tile):
        for k in range(tile):
            i = (kd.blockIdx.x * tile + k) * block + kd.threadIdx.x
            if i < x.size:
                x[i] *= factor
    return scale
"""


@pytest.fixture
def another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Change to another, empty cache."""
    numbers = itertools.count()

    def change() -> None:
        monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(tmp_path / f"another {next(numbers)}"))

    return change


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make a package with a kernel."""
    folder = tmp_path / "packages" / "tuned_package"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(folder.parent))
    yield lambda: __import__("tuned_package")
    sys.modules.pop("tuned_package", None)
    measured._tables._values.pop("tuned_package", None)


def tune(kernel: Any, size: int = 1000) -> kd.LaunchPlan:
    with kd.use("cpu"):
        return kernel.forall(size).tune(np.ones(size), budget="full").plan


def member(kernel: Any, size: int = 1000) -> dict[str, Any]:
    with kd.use("cpu"):
        return dict(kernel.forall(size).plan(np.ones(size)).parameters)


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")


@pytest.fixture(autouse=True)
def fast_member(timed_by: Any) -> None:
    timed_by(lambda plan: 10.0 if dict(plan.parameters) == FAST else 1000.0)


def run(*arguments: str, status: int = 0) -> Any:
    done = CliRunner().invoke(make_app(), ["tune", *arguments], catch_exceptions=False)
    assert done.exit_code == status, done.output
    return done.output


def test_records_go_to_another_cache_and_nothing_is_measured_there(
    package: Any, another: Any, tmp_path: Path
):
    kernel, file = package().make(2.0), tmp_path / "records.json"
    plan = tune(kernel)
    (records,) = before = read_records()
    assert records.chosen is not None
    assert dict(records.chosen.parameters) == FAST
    assert records.launch.kernel == "tuned_package.make.<locals>.scale"
    assert records.best is not None
    assert records.best.plan == records.chosen
    assert write_documents(file, before) == 1
    another()
    assert not read_records()
    taken = merge_records(read_documents(file)[0])
    assert taken == (len(records.plans), 0)
    assert read_records() == before
    assert merge_records(read_documents(file)[0]) == (0, len(records.plans))
    fresh = package().make(2.0)
    with kd.use("cpu"):
        report = fresh.forall(1000).tune(np.ones(1000), budget="full")
    assert all(each.was_known for each in report.tried)
    assert report.plan.parameters == plan.parameters


def test_of_two_measurements_the_narrower_counts_in_any_order(
    package: Any, another: Any, monkeypatch: pytest.MonkeyPatch
):
    found: list[list[LaunchRecords]] = []
    for width in (0.5, 0.1):

        def measure(session: Any, plan: PlanChoices, width: float = width) -> Measured:
            parameters = dict(plan.parameters)
            time = 100.0 * parameters["tile"] if width == 0.1 else 100.0 / parameters["tile"]
            return Measured(time, time * (1 - width), time * (1 + width), 9)

        monkeypatch.setattr(Session, "_measure", measure)
        another()
        tune(package().make(3.0))
        found.append(read_records())
    merged = []
    for order in (found, found[::-1]):
        another()
        for records in order:
            merge_records(records)
        merged.append(read_records())
    assert merged[0] == merged[1]
    assert merged[0][0].plans == found[1][0].plans
    assert merged[0][0].chosen == found[1][0].chosen != found[0][0].chosen


def test_the_commands_show_export_and_merge(package: Any, another: Any, tmp_path: Path):
    assert "Nothing was tuned" in run("show")
    tune(package().make(2.0))
    tune(package().make(5.0), 50_000)
    shown = run("show")
    assert shown.count("make.<locals>.scale") == 2
    assert "tile=2" in shown
    assert "100.00×" in shown
    assert len(json.loads(run("show", "--json", "--kernel", "scale"))["launches"]) == 2
    assert json.loads(run("show", "--json", "--device", "no such device")) == {"launches": []}
    name = json.loads(run("show", "--json"))["launches"][0]["metadata"]["launch"]["kernel"]
    missed = " ".join(run("show", "--kernel", "scael").split())
    assert f"for --kernel 'scael'. There are records of, the nearest name first: {name}." in missed
    assert "for --device 'no such device'. There are" in run("show", "-d", "no such device")
    assert "Nothing was tuned." not in missed
    file = tmp_path / "all.json"
    assert "2 launches written" in run("export", str(file))
    documents = json.loads(file.read_text())
    for document in documents:
        assert document["schema_version"] == "1.0.0"
        assert document["metadata"]["launch"]["signature"] == "float64[::1]"
        for result in document["results"]:
            assert result["invalidity"] == "correct"
            assert result["measurements"][0]["unit"] == "ns"
    another()
    count = sum(len(document["results"]) for document in documents)
    assert f"{count} measurements taken in, 0 were known" in run("merge", str(file))
    assert json.loads(run("merge", str(file), str(file), "--json")) == {
        "taken": 0,
        "kept": 2 * count,
        "refused": 0,
    }
    assert run("show") == shown


def test_what_is_no_record_is_refused(package: Any, another: Any, tmp_path: Path):
    tune(package().make(2.0))
    file = tmp_path / "records.json"
    run("export", str(file))
    (document,) = json.loads(file.read_text())
    count = len(document["results"])
    assert count >= 4
    document["results"][0]["record"]["measured"]["median_ns"] = float("nan")
    document["results"][1]["record"]["key"]["entry"] = "code"  # an entry whose code is run
    document["results"][2]["record"] = "text"
    del document["results"][3]["record"]
    broken = tmp_path / "broken.json"
    other = {"schema_version": "1.0.0", "metadata": {}, "results": [{}, {}]}
    broken.write_text(json.dumps([document, other]))
    another()
    found = json.loads(run("merge", str(broken), "--json"))
    assert found == {"taken": count - 4, "kept": 0, "refused": 6}
    for text in ("no JSON", "[1]", "{}", ""):
        broken.write_text(text)
        with pytest.raises(ArgumentValueError, match="holds no records of tuning"):
            read_documents(broken)


def test_a_plan_that_a_package_ships_is_taken_from_the_first_launch(
    package: Any, another: Any, monkeypatch: pytest.MonkeyPatch
):
    module = package()
    plain = member(module.make(2.0))
    assert plain != FAST
    another()
    tune(module.make(2.0))
    tables = Path(module.__file__).parent / "tuned"
    tables.mkdir()
    (tables / "a broken one.json").write_text("[{}]")
    run("export", "--best", str(tables / "cpu.json"))
    (document,) = json.loads((tables / "cpu.json").read_text())
    assert len(document["results"]) == 1
    assert "key" not in json.dumps(document)
    another()
    measured._tables._values.clear()
    assert member(module.make(2.0)) == FAST
    assert member(module.make(2.0), 3) != FAST  # another class of extents
    assert member(module.make(7.0)) != FAST  # another captured constant
    with kd.tune("never"):
        assert member(module.make(2.0)) == plain
    monkeypatch.setenv("KERNELDSL_CACHE", "0")
    assert member(module.make(2.0)) == FAST
    monkeypatch.setenv("KERNELDSL_CACHE", "1")
    document["metadata"]["launch"]["device"] = "another processor"
    (tables / "cpu.json").write_text(json.dumps(document))
    measured._tables._values.clear()
    assert member(module.make(2.0)) == plain


@pytest.mark.full
def test_what_was_measured_here_goes_before_what_is_shipped(
    package: Any, another: Any, timed_by: Any
):
    module = package()
    tune(module.make(2.0))
    tables = Path(module.__file__).parent / "tuned"
    tables.mkdir()
    run("export", "--best", str(tables / "cpu.json"))
    another()
    measured._tables._values.clear()
    other = {"block": 32, "tile": 1}
    timed_by(lambda plan: 10.0 if dict(plan.parameters) == other else 1000.0)
    tune(module.make(2.0))
    assert member(module.make(2.0)) == other


def test_a_document_of_failed_plans_chooses_nothing():
    from kerneldsl.launch.tuned_launch import TunedLaunch

    launch = TunedLaunch("module.kernel", "", "float32[::1]", (1024,), "a device", "CUDA 13.0")
    document = to_document(LaunchRecords(launch, "0"))
    assert document["metadata"]["chosen"] is None
    assert document["results"] == []
    assert TunedLaunch.from_dict(json.loads(json.dumps(launch.to_dict()))) == launch
    assert launch.in_class.driver == "CUDA 13"
