"""Linear forms, and bounds that follow from facts, against a search that tries every fact."""

from __future__ import annotations

import numpy as np
import pytest

from kerneldsl.ir.linear_forms import Fact, Linear, lower_bound

ATOMS = ("a", "b", "c", "d")
STEPS = 6


def random_form(rng: np.random.Generator) -> Linear:
    return Linear.of({a: int(rng.integers(-2, 3)) for a in ATOMS}, int(rng.integers(-4, 5)))


@pytest.mark.parametrize("seed", range(4))
def test_sums_and_multiples(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(100):
        one, two, times = random_form(rng), random_form(rng), int(rng.integers(-3, 4))
        wanted = {a: one.factor(a) + times * two.factor(a) for a in ATOMS}
        assert one.plus(two, times) == Linear.of(wanted, one.constant + times * two.constant)
        assert one + two.scale(times) == one.plus(two, times)
        assert one - two == one.plus(two, -1)


def slow_bound(form: Linear, facts: list[Fact], bounds: dict[str, int], steps: int) -> int | None:
    """Eliminate the first atom by each fact in turn, as the definition has it."""
    if not form.terms:
        return form.constant
    if steps == 0:
        return None
    atom, factor = min(form.terms, key=lambda term: (term[1] > 0, term[0]))
    found = []
    if factor > 0 and atom in bounds:
        rest = form - Linear.of({atom: factor})
        found.append(_plus(slow_bound(rest, facts, bounds, steps - 1), factor * bounds[atom]))
    for fact in facts:
        own = dict(fact.form.terms).get(atom, 0)
        if own and factor % own == 0 and factor // own >= 1:
            times = factor // own
            rest = form + fact.form.scale(-times)
            gain = times if fact.is_strict else 0
            found.append(_plus(slow_bound(rest, facts, bounds, steps - 1), gain))
    return max((each for each in found if each is not None), default=None)


def _plus(bound: int | None, more: int) -> int | None:
    return None if bound is None else bound + more


@pytest.mark.parametrize("seed", range(4))
def test_bounds_from_facts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    known = 0
    for _ in range(60):
        facts = [Fact(random_form(rng), bool(rng.integers(2))) for _ in range(3)]
        bounds = {a: int(rng.integers(-3, 4)) for a in ATOMS if rng.integers(2)}
        form = random_form(rng)
        found = lower_bound(form, facts, bounds.get, lambda: True)
        assert found == slow_bound(form, facts, bounds, STEPS)
        known += found is not None
    assert known
