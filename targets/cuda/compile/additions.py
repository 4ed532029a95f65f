"""Tensor maps and threads that compiled code adds to a launch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kerneldsl.contract import LaunchConfig, UnusableCodeError
from kerneldsl.utilities.dataclasses import dataclass

if TYPE_CHECKING:
    from kerneldsl.contract.tensor_maps import TensorMap

__all__ = ["NO_ADDITIONS", "LaunchAdditions", "dump_additions", "restore_additions"]


@dataclass(frozen=True, slots=True)
class LaunchAdditions:
    """Additions of a compiled kernel to each of its launches."""

    #: Tensor maps, after the parameters of its arguments.
    tensor_maps: tuple[TensorMap, ...] = ()
    #: Threads of a block after the declared ones, along x.
    threads: int = 0
    #: Whether the code waits for the kernel before it, so that it may be started early.
    is_early: bool = False

    def added_to(self, config: LaunchConfig) -> LaunchConfig:
        """Return a configuration with the additions."""
        if not self.threads:
            return config
        x, y, z = config.block_dim
        return replace(config, block_dim=(x + self.threads, y, z))


#: Of most kernels.
NO_ADDITIONS = LaunchAdditions()


def dump_additions(additions: LaunchAdditions) -> dict[str, Any]:
    """Write additions as a section of metadata; nothing if there are none."""
    if additions == NO_ADDITIONS:
        return {}
    maps = [[m.array, m.axes, m.box, m.swizzle] for m in additions.tensor_maps]
    return {"additions": {"maps": maps, "threads": additions.threads, "early": additions.is_early}}


def restore_additions(metadata: dict[str, Any], array_count: int) -> LaunchAdditions:
    """Read what :func:`dump_additions` wrote, of a kernel with so many arrays.

    Raises `UnusableCodeError` for anything else.
    """
    found = metadata.get("additions")
    if found is None:
        return NO_ADDITIONS
    from kerneldsl.contract.tensor_maps import TensorMap

    try:
        maps = tuple(
            TensorMap(int(array), tuple(map(int, axes)), tuple(map(int, box)), int(swizzle))
            for array, axes, box, swizzle in found["maps"]
        )
        made = LaunchAdditions(maps, int(found["threads"]), bool(found["early"]))
    except (LookupError, ValueError, TypeError) as error:
        raise UnusableCodeError(f"the additions cannot be read: {error!r}") from error
    if not all(_is_possible(each, array_count) for each in maps):
        raise UnusableCodeError(f"{maps} are no tensor maps of the kernel")
    return made


def _is_possible(wanted: TensorMap, array_count: int) -> bool:
    from kerneldsl.contract.tensor_maps import MAP_SWIZZLES, MAX_MAP_RANK

    return (
        0 <= wanted.array < array_count
        and 1 <= len(wanted.axes) == len(wanted.box) <= MAX_MAP_RANK
        and sorted(wanted.axes) == list(range(len(wanted.axes)))
        and all(1 <= extent <= 256 for extent in wanted.box)
        and wanted.swizzle in MAP_SWIZZLES
    )
