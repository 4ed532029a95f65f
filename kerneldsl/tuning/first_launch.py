"""Tuning of the first launch of a kind, where a policy gives time for it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from kerneldsl.contract.streams import is_recorded
from kerneldsl.errors import LaunchConfigError
from kerneldsl.launch.decision import is_planned, settle
from kerneldsl.launch.measured import read_choice
from kerneldsl.launch.pipeline import make_choice
from kerneldsl.launch.request import Request
from kerneldsl.launch.tuning_policy import TuningPolicy
from kerneldsl.planner.plan import LaunchPlan
from kerneldsl.streams.current import launch_stream
from kerneldsl.tuning.search import TuningOptions
from kerneldsl.tuning.tune import tune
from kerneldsl.utilities.environment import logger

__all__ = ["tune_first_launch"]


def tune_first_launch(
    request: Request,
    args: tuple[Any, ...],
    bind_with: Callable[[LaunchPlan], Callable[[], object]],
    policy: TuningPolicy,
) -> bool:
    """Tune a launch that is about to be made, unless its kind was tuned before or cannot be.

    - `request`: the launch, over an extent that leaves its plan open.
    - `args`: its arguments; what the kernel writes holds afterwards what it held before.
    - `bind_with`: binds the launch with a plan to these arguments.
    - `policy`: with a budget of more than 0 seconds.
    - returns: whether another plan may be launched than before.
    """
    known = request.state.choices.get(request.key)
    if (known is not None and known.is_measured) or not _can_be_tuned(request):
        return False
    if known is None and read_choice(request) is not None:
        return False  # the launch reads it again
    name = request.state.unit.qualname
    try:
        report = tune(request, args, bind_with, TuningOptions(policy))
    except LaunchConfigError as error:
        logger.info("%s is launched untuned: %s", name, error)
        choice = make_choice(request)
        if choice is not None:  # not at every launch anew
            settle(request, choice._replace(is_measured=True))
        return False
    logger.info("%s was tuned: %s", name, str(report).splitlines()[0])
    return True


def _can_be_tuned(request: Request) -> bool:
    """Return whether a launch has several plans, and its time would be its own."""
    device, shape = request.device, request.shape
    assert shape.extent is not None
    if request.fallback is not None or math.prod(shape.extent) == 0 or device.is_simulated:
        return False
    if request.binding.host and not device.shares_host_memory:
        return False
    if request.state.options.debug:
        return False
    if is_recorded(launch_stream(device, shape.stream, request.binding.streams)):
        return False
    return is_planned(request) or device.is_shared_out
