"""Plans that were measured: their times, the fastest of them, and those that a package ships.

The cache has an entry for each plan that was measured, and one for the plan that was chosen. The
first is found by the code of that plan, its block and sharing. So a member that is added to a space
later is measured alone. The second is found by the code of the kernel's plainest form and the whole
space. Both keys name the class of extents, the device and its driver.

A package may ship ``tuned/*.json``, written by ``kerneldsl tune export --best``. The first
launch of one of its kernels takes the plan, on a device of the same name and class of driver. Plans
that the user has measured take precedence. Files are read once for each package, and invalid
contents are left out.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from kerneldsl.cache.disk import disk_cache
from kerneldsl.cache.key import Key
from kerneldsl.cache.reasons import BadEntry, UncacheableError
from kerneldsl.contract import ONE_EACH, Dim3, ElementMapping, HostShare, Specialization
from kerneldsl.launch.artifact import find_key
from kerneldsl.launch.request import Request
from kerneldsl.launch.specialize import specialize_anew
from kerneldsl.launch.tuning_policy import CacheState
from kerneldsl.planner.candidates import Candidate, extent_class
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.environment import logger
from kerneldsl.utilities.locks import OnceTable
from kerneldsl.utilities.modules import may_be_shipped
from kerneldsl.utilities.untrusted import parse_json

if TYPE_CHECKING:
    from kerneldsl.launch.tuned_launch import TunedLaunch

__all__ = [
    "ABOUT",
    "FOLDER",
    "SECTION",
    "Measured",
    "PlanChoices",
    "candidate_of",
    "choice_key",
    "measurement_key",
    "read_choice",
    "read_json",
    "read_measured",
    "read_measurement",
    "read_plan",
    "read_table",
    "shipped_choice",
    "write_choice",
    "write_measurement",
]

#: The section of an entry that holds it, and the section for readers of records.
SECTION, ABOUT = "measured", "about"


@dataclass(frozen=True, slots=True)
class PlanChoices:
    """Decisions of a plan, without what it says of them."""

    #: Threads of a block.
    block_dim: Dim3
    #: Mapping of indices to threads.
    mapping: ElementMapping = ONE_EACH
    #: The member of the kernel's space, if it has one.
    parameters: tuple[tuple[str, Any], ...] = ()
    #: Division of the work among threads, on the CPU.
    host: HostShare | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """A measured time."""

    #: Median of the samples; ``None`` where the plan cannot run, or computes something else.
    median_ns: float | None
    #: A confidence interval of the median, at 95 % or more.
    low_ns: float = 0.0
    high_ns: float = 0.0
    #: Number of samples.
    samples: int = 0
    #: Reason why there is no time.
    problem: str = ""


def measurement_key(
    request: Request,
    plan: PlanChoices,
    cache: CacheState = "warm",
    shapes: Iterable[tuple[int, ...]] = (),
) -> Key:
    """Return the key of a plan's measurement, with the last cache in a state.

    `request` is that of the member, where the kernel has a space. `shapes` are those of the arrays:
    a time may depend on more than the extent, as that of a product does. Raises `UncacheableError`.
    """
    made = find_key(request.device.compiler, specialize_anew(request, plan.mapping))
    about = {
        "entry": "measurement",
        "block": str(plan.block_dim),
        "share": str(plan.host),
        "shapes": str([extent_class(each) for each in shapes]),
        **({} if cache == "warm" else {"cache": cache}),
        **_where(request),
    }
    return Key({**made.components, **about})


def choice_key(request: Request) -> Key:
    """Return the key of the plan chosen for a launch. Raises `UncacheableError`."""
    space = request.shape.space
    plain = request if space is None else request.of(space.members[0])
    specialization = specialize_anew(plain, ONE_EACH)
    made = _shipped_key(request, specialization)
    if made is None:
        made = find_key(request.device.compiler, specialization)
    about = {
        "entry": "choice",
        "space": "" if space is None else "; ".join(map(str, space)),
        **_where(request),
    }
    return Key({**made.components, **about})


def _shipped_key(request: Request, specialization: Specialization) -> Key | None:
    """Return the key of shipped code, if the kernel's package ships some.

    Other keys name the toolchain, which takes as long to find out as to load shipped code.
    """
    if not may_be_shipped():
        return None
    from kerneldsl.launch.shipped import ships_anything
    from kerneldsl.shipping.key import shipped_keys

    if not ships_anything(specialization.unit):
        return None
    compiler = request.device.compiler
    best = compiler.shipped_architectures(specialization.arch)[:1]
    try:
        keys = shipped_keys(specialization, compiler.code_family, best)
    except UncacheableError:
        return None
    return keys[best[0]] if best else None


def _where(request: Request) -> dict[str, str]:
    """Return where a time is good, and over which extents."""
    device, extent = request.device, request.shape.extent
    assert extent is not None
    threads = device.thread_count()
    return {
        "extents": str(extent_class(extent)),
        "device": device.name,
        "device limits": repr(device.limits),
        "driver": device.software,
        "threads": "" if threads is None else str(threads),
    }


def read_measurement(key: Key) -> Measured | None:
    found = read_json(key, SECTION)
    return None if found is None else read_measured(found)


def read_measured(found: Mapping[str, Any]) -> Measured | None:
    """Return a measurement as JSON has it; ``None`` if it is not one."""
    try:
        made = Measured(**found)
        times = (made.median_ns or 0.0, made.low_ns, made.high_ns)
        if not all(isinstance(time, float) and math.isfinite(time) for time in times):
            return None
    except TypeError:
        return None
    return made


def write_measurement(key: Key, measured: Measured, about: Mapping[str, Any] | None = None) -> None:
    """Keep a measurement, and its description for readers of the records.

    It is on disk when this returns.
    """
    _write(key, asdict(measured), about)


def write_choice(key: Key, plan: PlanChoices, about: Mapping[str, Any] | None = None) -> None:
    """Keep the plan that launches are to take."""
    _write(key, asdict(plan), about)


def read_choice(request: Request) -> PlanChoices | None:
    """Return the plan that was found best for such launches, if they were measured."""
    if not disk_cache().is_on:
        return None
    try:
        found = read_json(choice_key(request), SECTION)
    except UncacheableError:
        return None
    return None if found is None else read_plan(found)


def read_plan(found: Mapping[str, Any]) -> PlanChoices | None:
    """Return a plan as JSON has it; ``None`` if it is not one."""
    try:
        mapping, host = found["mapping"], found["host"]
        axes = mapping["axes"]
        x, y, z = found["block_dim"]
        items_x, items_y, items_z = mapping["items"]
        rest = {name: mapping[name] for name in mapping if name not in ("items", "axes")}
        return PlanChoices(
            (x, y, z),
            ElementMapping(
                items=(items_x, items_y, items_z),
                axes=None if axes is None else tuple(axes),
                **rest,
            ),
            tuple((name, _value(value)) for name, value in found["parameters"]),
            None if host is None else HostShare(**host),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _value(value: Any) -> Any:
    """Return the value of a parameter as it was: JSON has lists for tuples."""
    return tuple(map(_value, value)) if isinstance(value, list) else value


def candidate_of(plan: PlanChoices, request: Request) -> Candidate | None:
    """Return a plan as the planner's candidate; ``None`` if it is no member of the space."""
    space = request.shape.space
    if space is None:
        return Candidate(plan.block_dim, plan.mapping, None, plan.host)
    for member in space:
        if member.values == plan.parameters and member.block_dim == plan.block_dim:
            return Candidate(member.block_dim, plan.mapping, member, plan.host)
    return None


def read_json(key: Key, section: str) -> dict[str, Any] | None:
    """Read a section of an entry; that there is none is no miss of compiled code."""
    cache = disk_cache()
    for store in (cache.site, cache.user):
        if store is None:
            continue
        try:
            entry, _ = store.read(key)
            found = parse_json(entry.sections[section])
        except (BadEntry, KeyError, ValueError):
            continue
        if isinstance(found, dict):
            return found
    return None


def _write(key: Key, values: Mapping[str, Any], about: Mapping[str, Any] | None) -> None:
    sections = {SECTION: json.dumps(dict(values)).encode()}
    if about is not None:
        sections[ABOUT] = json.dumps(dict(about)).encode()
        made = {"kernel": about["launch"]["kernel"]}  # as it is noted of code
        sections["made"] = json.dumps(made).encode()
    disk_cache().keep(key, sections)


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

    - `path`: a file that ``kerneldsl tune export --best`` has written.
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
