"""Tuned plans that a package ships as plain data: ``tuned/*.json`` in the folder of the package.

A package that holds kernels may hold, beside them, what ``kerneldsl tune export --best`` wrote on
devices that its authors have. A launch whose kernel is in that package, on a device of that name
with a driver of that class, then takes the plan from its first call on. What the user has measured
goes before. Files are read once for each package; what in them is not as it should be is left out.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from kerneldsl.launch.measured import PlanChoices, read_plan
from kerneldsl.launch.request import Request
from kerneldsl.utilities.environment import logger
from kerneldsl.utilities.once import OnceTable
from kerneldsl.utilities.untrusted import parse_json

if TYPE_CHECKING:  # few packages ship plans
    from kerneldsl.launch.tuned_launch import TunedLaunch

__all__ = ["FOLDER", "read_table", "shipped_choice"]

#: The folder of a package with its tables.
FOLDER = "tuned"
_MOST_BYTES = 64 << 20

_Table: TypeAlias = "Mapping[TunedLaunch, PlanChoices]"
_tables: OnceTable[str, _Table] = OnceTable()


def shipped_choice(request: Request) -> PlanChoices | None:
    """Return the plan that the kernel's package ships for such launches, if it does."""
    package = request.state.unit.module.partition(".")[0]
    table = _tables.get_or_make(package, lambda: _read_package(package))
    if not any(each.device == request.device.name for each in table):
        return None
    from kerneldsl.launch.tuned_launch import tuned_launch

    plan = table.get(tuned_launch(request).in_class)
    threads = request.device.thread_count()
    if plan is not None and plan.host is not None and threads and plan.host.threads > threads:
        return None  # a machine of the same name with fewer threads
    return plan


def _read_package(name: str) -> _Table:
    module = sys.modules.get(name)
    found: dict[TunedLaunch, PlanChoices] = {}
    for folder in getattr(module, "__path__", ()):
        for path in sorted(Path(folder, FOLDER).glob("*.json")):
            found.update(read_table(path))
    return found


def read_table(path: Path) -> dict[TunedLaunch, PlanChoices]:
    """Read a file of tuned plans; what is not readable gives none.

    Parameters
    ----------
    path : Path
        As ``kerneldsl tune export --best`` writes it.
    """
    from kerneldsl.launch.tuned_launch import TunedLaunch

    found: dict[TunedLaunch, PlanChoices] = {}
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError(f"a table has at most {_MOST_BYTES} bytes")
        documents = parse_json(path.read_bytes())
        for document in documents if isinstance(documents, list) else [documents]:
            about = document["metadata"]
            plan = read_plan(about["chosen"])
            if plan is not None:
                found[TunedLaunch.from_dict(about["launch"]).in_class] = plan
    except (OSError, ValueError, KeyError, TypeError) as error:
        logger.warning("the tuned plans in %s cannot be read: %s", path, error)
    return found
