"""Check the English of pages, docstrings and comments.

Each finding names its file and line, the word and a better one. Rewrite the sentence; do not
replace the word alone where two short sentences say it better. The words are in
tests/support/prose/words.toml, the limits of sentences in tests/support/prose/rules.py.

Files that were written before have a number of findings in tests/support/prose/baseline.txt. It
may only become smaller: after a rewrite run --update, which lowers it and never raises it. A file
that is moved takes its line with it, by hand.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.support.prose.rules import findings

__all__ = ["BASELINE", "compared", "counts", "lowered", "main", "read", "written"]

_ROOT = Path(__file__).parents[3]
BASELINE = Path(__file__).parent / "baseline.txt"
_CHECKED = (
    "*.md",
    "docs/**/*.md",
    "notebooks/*.ipynb",
    *(f"{folder}/**/*.py" for folder in ("kerneldsl", "targets", "stdlib_kernels")),
    *(f"{folder}/**/*.py" for folder in ("kerneldsl_demo", "examples")),
)


def counts() -> dict[str, int]:
    """Return the number of findings of each file that has any."""
    files = sorted({file for pattern in _CHECKED for file in _ROOT.glob(pattern)})
    found = {file.relative_to(_ROOT).as_posix(): len(findings(file)) for file in files}
    return {file: count for file, count in found.items() if count}


def read(text: str) -> dict[str, int]:
    """Return the numbers of a baseline: in each line a number and a file."""
    lines = (line.split(maxsplit=1) for line in text.splitlines())
    return {file: int(count) for count, file in lines}


def written(baseline: Mapping[str, int]) -> str:
    """Return the text of a baseline."""
    return "".join(f"{count} {file}\n" for file, count in sorted(baseline.items()))


def compared(
    found: Mapping[str, int], baseline: Mapping[str, int]
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the files with more findings than their number, and those with fewer."""
    files = sorted({*found, *baseline})
    now = {file: found.get(file, 0) for file in files}
    more = {file: count for file, count in now.items() if count > baseline.get(file, 0)}
    fewer = {file: count for file, count in now.items() if count < baseline.get(file, 0)}
    return more, fewer


def lowered(found: Mapping[str, int], baseline: Mapping[str, int]) -> dict[str, int]:
    """Return a baseline with the numbers of files that have fewer findings than it says."""
    kept = {file: min(count, found.get(file, 0)) for file, count in baseline.items()}
    return {file: count for file, count in kept.items() if count}


def _print(files: Iterable[str]) -> None:
    for file in files:
        for finding in findings(_ROOT / file):
            print(f"{file}:{finding.line}: {finding.message}")


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return the status of the process."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.prose",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="*", help="list all findings of these files instead")
    parser.add_argument("--update", action="store_true", help="lower the numbers of the baseline")
    given = parser.parse_args(arguments)
    if given.files:
        _print(given.files)
        return 0
    found, baseline = counts(), read(BASELINE.read_text(encoding="utf-8"))
    if given.update:
        baseline = lowered(found, baseline)
        BASELINE.write_text(written(baseline), encoding="utf-8")
    more, fewer = compared(found, baseline)
    _print(more)
    for file, count in more.items():
        print(f"{file}: {count} findings; the baseline permits {baseline.get(file, 0)}")
    for file, count in fewer.items():
        print(f"{file}: lower the number in the baseline from {baseline[file]} to {count}")
    if more:
        print("Rewrite the sentences above: python -m tests.support.prose --help")
    if fewer:
        print("Lower the numbers: python -m tests.support.prose --update")
    print(f"Prose: {sum(found.values())} findings in {len(found)} files.")
    return bool(more or fewer)


if __name__ == "__main__":
    sys.exit(main())
