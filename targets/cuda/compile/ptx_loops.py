"""Innermost loops in the PTX that LLVM writes."""

from __future__ import annotations

from collections.abc import Iterator

from targets.cuda.compile.ptx_lines import LABEL, branch_of

__all__ = ["has_loops", "innermost_loops"]


def has_loops(lines: list[str]) -> bool:
    """Return whether there is a branch to a line before it."""
    seen: set[str] = set()
    for line in lines:
        if found := LABEL.match(line):
            seen.add(found[1])
        elif "bra" in line and (branch := branch_of(line)) and branch.label in seen:
            return True
    return False


def innermost_loops(lines: list[str], most_lines: int) -> Iterator[tuple[int, int]]:
    """Yield first and last lines of loops that are entered at their label, and contain none.

    The last line is the last branch back to the label. A loop with more than `most_lines` is not
    among them.
    """
    places = {found[1]: n for n, line in enumerate(lines) if (found := LABEL.match(line))}
    branches = [(n, each.label) for n, line in enumerate(lines) if (each := branch_of(line))]
    loops = {places[label]: place for place, label in branches if places.get(label, place) < place}
    for first, last in loops.items():
        inside = range(first, last + 1)
        is_innermost = not any(other in inside and other != first for other in loops)
        is_entered_once = not any(
            places.get(label) in inside[1:] and place not in inside for place, label in branches
        )
        if is_innermost and is_entered_once and len(inside) <= most_lines:
            yield first, last
