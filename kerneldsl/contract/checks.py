"""Results of the checks of a machine, with remedies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from kerneldsl.utilities.formatting import AsDict

__all__ = ["Check", "CheckStatus", "said_by"]

#: ``"ok"``; ``"warning"``: works, but slower, or not everywhere; ``"problem"``: does not work.
CheckStatus: TypeAlias = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Check(AsDict):
    """One finding of :func:`kerneldsl.preflight`.

    Parameters
    ----------
    name : str
        Stable, with a dot between the part of the machine and what was looked at, such as
        ``"cuda.driver"``.
    status : {"ok", "warning", "problem"}
        Whether it is as it should be.
    found : str
        What was found, in words.
    remedy : str or None
        What to do about it; there is one unless the status is ``"ok"``.
    """

    name: str
    status: CheckStatus
    found: str
    remedy: str | None = None


def said_by(error: BaseException) -> str:
    """Return an error's finding and limit in one line; its remedy stands apart."""
    parts = getattr(error, "what", None) or str(error), getattr(error, "limit", None)
    return " ".join(". ".join(filter(None, parts)).split())
