"""Limits that the system's control groups put on this process, as containers do.

References
----------
Linux kernel, "Control Group v2", sections "Memory" and "CPU"; "CFS Bandwidth Control" for the first
version.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

__all__ = ["group_settings"]


def group_settings(
    controller: str, unified: str | None, first: str | None, root: Path
) -> Iterator[str]:
    """Yield a setting of this process's group and of each group above it, which holds as well.

    - `controller`: such as ``"memory"``.
    - `unified`, `first`: file of the setting in the second and in the first version of control
      groups; ``None`` leaves that version out.
    - `root`: where the system's files begin, which is another folder in tests.
    """
    folder = Path(root, "sys/fs/cgroup")
    for line in _read(Path(root, "proc/self/cgroup")).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            start, name = folder, unified
        elif controller in controllers.split(","):
            start, name = folder / controller, first
            if not start.is_dir():  # where several controllers are mounted together
                start = folder / controllers
        else:
            continue
        if name is None:
            continue
        group = Path(path.strip("/"))
        # In a container the path may not be visible.
        for part in (group, *group.parents):
            yield _read(start / part / name).strip()


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
