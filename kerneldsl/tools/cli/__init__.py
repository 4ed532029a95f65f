"""The command line; typer and rich are imported when it runs."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run ``kerneldsl`` with the arguments of the process, and exit."""
    from kerneldsl.tools.cli.app import run

    run()
