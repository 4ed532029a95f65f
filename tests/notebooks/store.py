"""Execute notebooks and store them with their outputs: ``python -m tests.notebooks.store [NAME…]``.

A name is the beginning of a notebook's, as ``03``; without one all are executed.
"""

from __future__ import annotations

import sys

from tests.notebooks.execution import NOTEBOOKS, execute, stored_form


def main(names: list[str]) -> None:
    import nbformat

    for path in NOTEBOOKS:
        if not names or path.stem.startswith(tuple(names)):
            notebook = stored_form(execute(path, answers=True))
            nbformat.validate(notebook)
            path.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")
            print(f"{path.name}: {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
