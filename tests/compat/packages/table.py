"""Write the table of docs/coming-from-numba-cuda.md from the JSON of a run of the packages.

python -m tests.compat.packages.table FILE …
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from kerneldsl.utilities.formatting import format_count

PAGE = Path(__file__).parents[3] / "docs" / "coming-from-numba-cuda.md"
FIRST, AFTER = "| package |", "## Change a program"
MARKS = "¹²³⁴⁵⁶⁷⁸⁹"


def table(rows: list[dict[str, Any]]) -> str:
    """Return the table, a line for each package, and what was patched below it."""
    releases = sorted({row["numpy"] for row in rows})
    names = dict.fromkeys((row["name"], row["version"]) for row in rows)
    patches: dict[str, str] = {}
    lines = [
        f"{FIRST} what ran | reference | {' | '.join(f'NumPy {each}' for each in releases)} |",
        "|---" * (3 + len(releases)) + "|",
    ]
    for name, version in names:
        of = {row["numpy"]: row for row in rows if row["name"] == name}
        some = next(iter(of.values()))
        marks = [patches.setdefault(each, MARKS[len(patches)]) for each in some["patched"]]
        passed = [
            f"{of[each]['passed']} of {of[each]['total']}" if each in of else "not run"
            for each in releases
        ]
        first = " ".join([name, version, *marks])
        lines.append(f"| {' | '.join([first, some['what'], some['reference'], *passed])} |")
    said = [f"{mark} {text[0].upper()}{text[1:]}." for text, mark in patches.items()]
    return "\n".join([*lines, "", *said, "", *when(rows)]) + "\n"


def when(rows: list[dict[str, Any]]) -> list[str]:
    """Return the runs that the rows are from, and the rows that are older than such records."""
    runs = Counter((row["date"], row["commit"], row["versions"]) for row in rows if "commit" in row)
    lines = [
        f"{date}, commit {commit}: {versions} ({format_count(number, 'package')})."
        for (date, commit, versions), number in runs.items()
    ]
    older = [f"{row['name']} ({row['numpy']})" for row in rows if "commit" not in row]
    if older:
        lines.append(f"Older, without a record of the commit: {', '.join(older)}.")
    return lines


def main() -> None:
    rows = [row for name in sys.argv[1:] for row in json.loads(Path(name).read_text())]
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(FIRST)
    _, _, after = rest.partition(AFTER)
    PAGE.write_text(f"{before}{table(rows)}\n{AFTER}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
