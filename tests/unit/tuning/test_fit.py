"""Fitting the cost model: constants of a device that differs are found from its times."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import kerneldsl as kd
from kerneldsl.launch.decision import make_problems
from kerneldsl.launch.fitted_models import model_for, write_model
from kerneldsl.launch.measured import Measured, PlanChoices
from kerneldsl.placement.devices import current_device
from kerneldsl.planner.choose import rank
from kerneldsl.planner.cost import CONSTANTS
from kerneldsl.planner.fit import FittedModel, ModelInputs, Sample, fit_model, read_model
from kerneldsl.tools.cli.app import make_app
from kerneldsl.tuning.records import read_records
from kerneldsl.tuning.session import Session
from tests.support.launched import null_in_use

#: A device that starts blocks slowly, waits long for memory, and has more of its bandwidth.
OTHER = FittedModel(
    CONSTANTS._replace(start_ns=900.0, access_instructions=14.0),
    (("memory_latency_ns", 1.6), ("block_start_ns", 2.0), ("memory_bytes_per_s", 1.2)),
)


@kd.kernel
def axpy(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@kd.kernel
def fill(out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = 1


KERNELS = {axpy: "float32, float32[::1], float32[::1], float32[::1]", fill: "float32[::1]"}


def inputs_of(kernel: Any, exponent: int) -> list[ModelInputs]:
    request = kernel.forall(1 << exponent)._request((KERNELS[kernel],), arch="sm_90")
    problems = make_problems(request, request.shape.extent)
    assert problems is not None
    return [ModelInputs.of(scored) for scored in rank(problems, {})[::6]]


def launches(model: FittedModel, scatter: float = 0.0) -> list[list[Sample]]:
    random = np.random.default_rng(20261123)
    return [
        [
            Sample(each, each.predict_ns(model) * math.exp(random.normal(0.0, scatter)))
            for each in inputs_of(kernel, exponent)
        ]
        for kernel in KERNELS
        for exponent in (14, 22, 27)
    ]


def test_the_constants_of_another_device_are_found():
    found = fit_model(launches(OTHER, scatter=0.01))
    assert found.error_before > 0.3
    assert found.error < found.error_before / 2  # of launches that were left out
    assert found.first_choice >= max(found.first_choice_before, 0.97)
    assert found.is_better
    # On launches that the fit has not seen.
    unseen = [
        math.log(each.predict_ns(found.model) / each.predict_ns(OTHER))
        for each in inputs_of(axpy, 22)
    ]
    assert max(map(abs, unseen)) < found.error_before


def test_what_the_model_predicts_right_is_not_fitted():
    found = fit_model([each[:12] for each in launches(FittedModel())][:3])
    assert found.error_before == 0.0
    assert found.first_choice_before == 1.0
    assert not found.is_better
    with pytest.raises(ValueError, match="no launch has two"):
        fit_model([[]])


def test_inputs_and_models_are_read_as_they_were_written():
    for each in inputs_of(axpy, 20)[:3]:
        found = json.loads(json.dumps(each.to_dict()))
        assert ModelInputs.from_dict(found, each.block_dim, each.mapping) == each
    text = json.dumps(OTHER.to_dict())
    assert read_model(json.loads(text)) == OTHER
    for broken in (
        {},
        {"constants": {}, "rates": {}},
        json.loads(text.replace("900.0", "-1.0")),
        json.loads(text.replace("900.0", '"fast"')),
        json.loads(text.replace("memory_latency_ns", "clock_hz")),
        {"constants": 1, "rates": 2},
    ):
        assert read_model(broken) is None


def test_the_planner_takes_the_fitted_model_of_its_device():
    with null_in_use():
        device = current_device()
        before = fill.forall(1 << 22).plan("float32[::1]").predicted_ns
        write_model(device.name, device.software, OTHER)
        assert model_for(device) == OTHER

        @kd.kernel
        def again(out):
            i = kd.grid(1)
            if i < out.size:
                out[i] = 1

        after = again.forall(1 << 22).plan("float32[::1]").predicted_ns
        write_model("another device", "", FittedModel())
        assert model_for(device) == OTHER
    assert before is not None
    assert after is not None
    assert after > before + 500
    described = fill.forall(1 << 22).plan("float32[::1]", arch="sm_90").predicted_ns
    assert described is not None  # of a device that is not there nothing was measured


def test_the_command_fits_what_is_recorded(monkeypatch: pytest.MonkeyPatch):
    def measure(session: Any, plan: PlanChoices) -> Measured:
        model = next(each.model for each in session._candidates if each.plan == plan)
        time = model.predict_ns(OTHER)
        return Measured(time, time, time, 7)

    def run(*arguments: str, status: int = 0) -> Any:
        done = CliRunner().invoke(make_app(), ["tune", "fit", *arguments], catch_exceptions=False)
        assert done.exit_code == status, done.output
        return done.output

    assert "Nothing was tuned" in run(status=1)
    monkeypatch.setattr(Session, "_measure", measure)
    with null_in_use():
        device = current_device()
        for exponent in (16, 24):
            out = kd.zeros(1 << exponent, np.float32)
            fill.forall(out.size).tune(out, budget=10.0)
        assert all(len(each.samples()) == len(each.plans) for each in read_records())
        (found,) = json.loads(run("--json", "--dry-run"))["fits"]
        assert found["device"] == device.name
        assert found["error"] < found["error_before"]
        assert not found["is_kept"]
        assert model_for(device) == FittedModel()
        assert "yes" in run()
        assert model_for(device) != FittedModel()
