"""The plans among which a launch is tuned, with what the cost model says of each."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping

from kerneldsl.contract import HostShare, LaunchConfig
from kerneldsl.errors import LaunchConfigError, ResourceLimitError
from kerneldsl.language.kinds import array_kinds
from kerneldsl.launch.configuration import host_share, shared_extent
from kerneldsl.launch.decision import host_members, is_planned, make_problems, tiled_config
from kerneldsl.launch.measured import PlanChoices
from kerneldsl.launch.pipeline import prepare
from kerneldsl.launch.request import Request, check_shape
from kerneldsl.planner.choose import Scored, rank
from kerneldsl.planner.fit import ModelInputs
from kerneldsl.planner.space import Member
from kerneldsl.tuning.search import Point
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["TuningCandidate", "find_candidates"]

#: Steps of a thread's part of the work that are tried; the planner's choice is one of them.
_STEPS = (1, 2, 3, 4, 5, 6, 7, 8)


@dataclass(frozen=True)
class TuningCandidate:
    """A plan that may be measured."""

    #: Decisions of the plan.
    plan: PlanChoices
    #: Time by the cost model; ``None`` if there is none for the target.
    predicted_ns: float | None
    #: The plan as the search sees it.
    point: Point
    #: Inputs of the cost model; ``None`` if there is none for the target.
    model: ModelInputs | None = None


def find_candidates(request: Request) -> list[TuningCandidate]:
    """Return every plan that a launch can have, the planner's own choice first.

    - raises `LaunchConfigError`, `ResourceLimitError` if no plan can run.
    """
    if request.device.is_shared_out:
        return _on_host(request)
    if not is_planned(request):
        return []
    problems = make_problems(_possible(request), request.shape.extent) or []
    found = []
    expected = _expected(request)
    for scored in _untuned_first(request, rank(problems, {}), expected):
        candidate, member = scored.candidate, scored.candidate.member
        mapping = candidate.mapping
        parameters: dict[str, Hashable] = {"block": candidate.block_dim}
        if member is not None:
            parameters |= dict(member.values)
        else:
            x, y, z = mapping.items
            parameters |= {
                "items": x * y * z,
                "rows": y * z,
                "vector": mapping.vector,
                "threads": candidate.block_threads,
                "tile": (candidate.block_threads * x * y * z).bit_length(),
            }
        time = scored.prediction.time_ns
        plan = PlanChoices(candidate.block_dim, mapping, () if member is None else member.values)
        point = Point(time if member is None else expected.get(member, time), parameters)
        found.append(TuningCandidate(plan, time, point, ModelInputs.of(scored)))
    return found


def _expected(request: Request) -> Mapping[Member, float]:
    """Return what a space itself expects of its members."""
    space, extent = request.shape.space, request.shape.extent
    if space is None or extent is None:
        return {}
    dtypes = [each.dtype for each in array_kinds(request.kinds)]
    return space.expected_for(request.device, extent, dtypes)


def _untuned_first(
    request: Request, ranked: list[Scored], expected: Mapping[Member, float]
) -> list[Scored]:
    """Bring the members that launches take before they are tuned before the others."""
    space = request.shape.space
    if space is None:
        return ranked
    if expected:
        return sorted(ranked, key=lambda each: _time(each.candidate.member, expected))
    first = set(space.first())
    return sorted(ranked, key=lambda each: each.candidate.member not in first)


def _time(member: Member | None, expected: Mapping[Member, float]) -> float:
    return math.inf if member is None else expected.get(member, math.inf)


def _on_host(request: Request) -> list[TuningCandidate]:
    """Return the members, and for each the ways in which threads may share the work."""
    if request.shape.space is None:
        _, config = prepare(request)
        return list(_shares(request, config, 0))
    possible = _possible(request)
    # Members are compiled when they are measured, not to know how they would be shared out.
    return [
        found
        for order, member in enumerate(host_members(possible))
        for found in _shares(request.of(member), tiled_config(request.of(member).shape), order)
    ]


def _possible(request: Request) -> Request:
    """Leave out the members that the device cannot run, by what is known before compiling.

    - raises `LaunchConfigError`, `ResourceLimitError` if it can run none.
    """
    shape = request.shape
    if shape.space is None:
        return request
    members, first = [], None
    for member in shape.space:
        try:
            check_shape(request.of(member))
        except (LaunchConfigError, ResourceLimitError) as error:
            first = first or error
        else:
            members.append(member)
    if first is None:
        return request
    if not members:
        raise first
    return request._replace(shape=shape.within(shape.space.subset(members)))


def _shares(request: Request, config: LaunchConfig, order: int) -> list[TuningCandidate]:
    pool = request.device.thread_pool()
    member = request.shape.member
    parameters = () if member is None else member.values
    block_dim = config.block_dim
    share = host_share(request, config)  # the planner's, whatever was measured before
    if share is None or pool is None:
        plan = PlanChoices(block_dim, parameters=parameters)
        return [TuningCandidate(plan, None, Point(1.0 + 0.05 * order, dict(parameters)))]
    whole = max(math.prod(shared_extent(request, config)), 1)
    found: dict[HostShare, float] = {share: 1.0 + 0.05 * order}
    for threads in _powers(pool[0]):
        for steps in _STEPS if threads > 1 else (1,):
            each = HostShare(threads, max(1, -(-whole // (threads * steps))))
            # Nothing is known of them but that the planner would not take them: near ones first.
            apart = _octaves(threads, share.threads) + _octaves(each.chunk, share.chunk)
            found.setdefault(each, 1.0 + 0.05 * order + 0.05 * apart)
    return [
        TuningCandidate(
            PlanChoices(block_dim, parameters=parameters, host=each),
            None,
            Point(rank, {**dict(parameters), "threads": each.threads, "chunk": each.chunk}),
        )
        for each, rank in found.items()
    ]


def _powers(most: int) -> list[int]:
    """Return 1, 2, 4, … and the number of threads itself."""
    return sorted({1 << i for i in range(most.bit_length()) if 1 << i <= most} | {most})


def _octaves(a: int, b: int) -> float:
    return abs(math.log2(a / b))
