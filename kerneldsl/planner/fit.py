"""Fitting the cost model's constants to measured times of one device.

The plan that the model puts first matters most. So the fit reduces above all its regret: how much
slower plans are than the fastest, weighted by a softmax of their predictions. Errors of predictions
have less weight. Errors within a launch come first, and plans near the fastest weigh most. Factors
of the constants are changed one by one, in decreasing steps, until that no longer helps. A factor
far from 1 must help more: a prior, since few records depend on every constant. If there are enough
launches, every third is left out of the fit and tests it. The test compares the plan that the model
puts first and the size of the error, before and after.

References
----------
S. J. Wright, "Coordinate descent algorithms", Mathematical Programming 151 (2015).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kerneldsl.contract import Dim3, ElementMapping
from kerneldsl.planner.candidates import Candidate
from kerneldsl.planner.cost import CONSTANTS, Constants, predict
from kerneldsl.planner.rates import DeviceRates
from kerneldsl.planner.work import ArrayReads, ElementWork

if TYPE_CHECKING:
    from kerneldsl.planner.choose import Scored

__all__ = ["FittedModel", "ModelFit", "ModelInputs", "Sample", "fit_model", "read_model"]

#: Rates that are fitted besides the constants; others are attributes of the device.
_RATES = (
    "memory_bytes_per_s",
    "l2_bytes_per_s",
    "memory_latency_ns",
    "l2_latency_ns",
    "launch_ns",
    "block_start_ns",
)
#: Steps of the logarithm of a factor, and passes over all factors with each.
_STEPS, _ROUNDS = (0.4, 0.15, 0.05), 3
#: Weights of the error within a launch, of that of all predictions, and of the prior, against the
#: regret. A prediction that is shorter by the softness weighs e times as much in the regret.
_WITHIN, _ABSOLUTE, _PRIOR, _SOFTNESS = 0.4, 0.1, 0.0003, 0.03
#: Launches from which on some are left out, to judge.
_ENOUGH = 6
#: Farthest that a factor goes, as a logarithm.
_FARTHEST = 1.5
#: Samples that are fitted to; of more, those near the fastest are.
_MOST_SAMPLES = 2000


class ModelInputs(NamedTuple):
    """Values from which the cost model predicts the time of one plan."""

    block_dim: Dim3
    mapping: ElementMapping
    work: ElementWork
    extent: tuple[int, ...]
    grid_blocks: int
    active_blocks: int
    spill_bytes: int
    rates: DeviceRates

    @classmethod
    def of(cls, scored: Scored, rates: DeviceRates | None = None) -> ModelInputs:
        """Return those of a plan that was compared, by default with rates before any fit."""
        candidate, problem = scored.candidate, scored.problem
        x, y, z = candidate.mapping.blocks(problem.extent, candidate.block_dim)
        return cls(
            candidate.block_dim,
            candidate.mapping,
            problem.work,
            problem.extent,
            x * y * z,
            scored.held.active_blocks,
            scored.resources.spill_bytes or 0,
            rates or DeviceRates.from_device(problem.device),
        )

    def predict_ns(self, model: FittedModel) -> float:
        """Return the time of the plan by a model, in nanoseconds."""
        return predict(
            Candidate(self.block_dim, self.mapping),
            self.work,
            self.extent,
            self.grid_blocks,
            self.active_blocks,
            model.of_device(self.rates),
            spill_bytes=self.spill_bytes,
            constants=model.constants,
        ).time_ns

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON, without the plan's own."""
        found = self._asdict()
        del found["block_dim"], found["mapping"]
        return {**found, "work": self.work._asdict(), "rates": self.rates._asdict()}

    @classmethod
    def from_dict(
        cls, found: Mapping[str, Any], block_dim: Dim3, mapping: ElementMapping
    ) -> ModelInputs:
        """Read what :meth:`to_dict` gave, with the plan's block and mapping.

        - raises `KeyError`, `TypeError`, `ValueError` if it is not that.
        """
        work = dict(found["work"])
        arrays = tuple(ArrayReads(size, (x, y, z)) for size, (x, y, z) in work.pop("arrays"))
        return cls(
            block_dim,
            mapping,
            ElementWork(**work, arrays=arrays),
            tuple(found["extent"]),
            found["grid_blocks"],
            found["active_blocks"],
            found["spill_bytes"],
            DeviceRates(**found["rates"]),
        )


class Sample(NamedTuple):
    """A plan that was measured."""

    inputs: ModelInputs
    time_ns: float


class FittedModel(NamedTuple):
    """Constants of the cost model for a device, and factors of its rates."""

    constants: Constants = CONSTANTS
    rate_factors: tuple[tuple[str, float], ...] = ()

    def of_device(self, rates: DeviceRates) -> DeviceRates:
        """Return the rates of the device, as they were fitted."""
        return rates._replace(**{name: getattr(rates, name) * f for name, f in self.rate_factors})

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers, for JSON; :func:`read_model` reads them."""
        return {"constants": self.constants._asdict(), "rates": dict(self.rate_factors)}


def read_model(found: Mapping[str, Any]) -> FittedModel | None:
    """Return a model from JSON; ``None`` if it is invalid or of another version."""
    try:
        constants, rates = dict(found["constants"]), dict(found["rates"])
    except (KeyError, TypeError, ValueError):
        return None
    numbers = (*constants.values(), *rates.values())
    if set(constants) != set(Constants._fields) or not set(rates) <= set(_RATES):
        return None
    if not all(isinstance(n, float) and 0.0 < n < math.inf for n in numbers):
        return None
    return FittedModel(Constants(**constants), tuple(rates.items()))


class ModelFit(NamedTuple):
    """Result of fitting."""

    model: FittedModel
    #: Time of the best plan over that of the plan which the model puts first, before and after. The
    #: geometric mean over the launches of the test.
    first_choice_before: float
    first_choice: float
    #: Root of the mean square of the logarithm of predicted over measured time.
    error_before: float
    error: float
    launches: int
    samples: int

    @property
    def is_better(self) -> bool:
        """True if the model's first plans are better, or as good with nearer predictions."""
        if self.first_choice == self.first_choice_before:
            return self.error < self.error_before
        return self.first_choice > self.first_choice_before


def fit_model(launches: Sequence[Sequence[Sample]], start: FittedModel | None = None) -> ModelFit:
    """Fit the constants to measured plans of some launches, all on one device.

    - `launches`: the plans of each launch that were measured; launches with one plan show nothing.
    - `start`: initial constants; by default the shipped ones.
    - raises `ValueError` if no launch has two plans.
    """
    spaces = [list(each) for each in launches if len(each) > 1]
    if not spaces:
        raise ValueError("no launch has two measured plans")
    begin = start or FittedModel()
    total = sum(map(len, spaces))
    judges = spaces[2::3] if len(spaces) >= _ENOUGH else spaces
    fitted = [space for n, space in enumerate(spaces) if judges is spaces or n % 3 != 2]
    each = max(2, _MOST_SAMPLES // len(fitted))
    thinned = [_thin(space, each) for space in fitted]
    names = [f"constants.{name}" for name in Constants._fields] + [f"rates.{n}" for n in _RATES]
    logs = dict.fromkeys(names, 0.0)
    best = _loss(thinned, begin, logs)
    for step in _STEPS:
        for _ in range(_ROUNDS):
            before = best
            for name in names:
                for change in (step, -step):
                    tried = {**logs, name: logs[name] + change}
                    if abs(tried[name]) > _FARTHEST:
                        continue
                    loss = _loss(thinned, begin, tried)
                    if loss < best:
                        best, logs = loss, tried
                        break
            if best > before * 0.999:
                break
    model = _scaled(begin, logs)
    return ModelFit(
        model,
        _first_choice(judges, begin),
        _first_choice(judges, model),
        _error(judges, begin),
        _error(judges, model),
        len(spaces),
        total,
    )


def _thin(space: list[Sample], count: int) -> list[Sample]:
    """Keep so many plans, the fastest among them, and fewer the slower they are."""
    ordered = sorted(space, key=lambda each: each.time_ns)
    if len(ordered) <= count:
        return ordered
    last = len(ordered) - 1
    return [ordered[n] for n in sorted({int(last * (k / (count - 1)) ** 2) for k in range(count)})]


def _scaled(begin: FittedModel, logs: Mapping[str, float]) -> FittedModel:
    constants = {
        name: getattr(begin.constants, name) * math.exp(logs[f"constants.{name}"])
        for name in Constants._fields
    }
    factors = dict(begin.rate_factors)
    rates = {name: factors.get(name, 1.0) * math.exp(logs[f"rates.{name}"]) for name in _RATES}
    return FittedModel(Constants(**constants), tuple(rates.items()))


def _loss(spaces: list[list[Sample]], begin: FittedModel, logs: Mapping[str, float]) -> float:
    model = _scaled(begin, logs)
    total = 0.0
    for space in spaces:
        errors = _errors(space, model)
        fastest = min(each.time_ns for each in space)
        slower = [math.log(each.time_ns / fastest) for each in space]
        weights = [math.exp(-late) for late in slower]
        mean = _average(weights, errors)
        total += _WITHIN * _average(weights, [(error - mean) ** 2 for error in errors])
        total += _ABSOLUTE * mean**2
        predicted = [late + error for late, error in zip(slower, errors, strict=True)]
        least = min(predicted)
        likely = [math.exp((least - each) / _SOFTNESS) for each in predicted]
        total += _average(likely, slower)
    return total / len(spaces) + _PRIOR * sum(log**2 for log in logs.values())


def _average(weights: Sequence[float], values: Sequence[float]) -> float:
    return sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)


def _errors(space: Sequence[Sample], model: FittedModel) -> list[float]:
    return [math.log(each.inputs.predict_ns(model) / each.time_ns) for each in space]


def _error(spaces: Sequence[Sequence[Sample]], model: FittedModel) -> float:
    errors = [error for space in spaces for error in _errors(space, model)]
    return math.sqrt(sum(error**2 for error in errors) / len(errors))


def _first_choice(spaces: Sequence[Sequence[Sample]], model: FittedModel) -> float:
    logs = []
    for space in spaces:
        predicted = [each.inputs.predict_ns(model) for each in space]
        first = space[predicted.index(min(predicted))].time_ns
        logs.append(math.log(min(each.time_ns for each in space) / first))
    return math.exp(sum(logs) / len(logs))
