"""Results of the checks of a machine, with remedies."""

from __future__ import annotations

from typing import Literal, TypeAlias

from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.formatting import AsDict

__all__ = ["Check", "CheckStatus", "said_by"]

#: ``"ok"``; ``"warning"``: works, but slower, or not everywhere; ``"problem"``: does not work.
CheckStatus: TypeAlias = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Check(AsDict):
    """One result of :func:`kerneldsl.preflight`.

    Parameters
    ----------
    name : str
        The part of the machine, a dot and the check, such as ``"cuda.driver"``. Names do not change
        between releases.
    status : {"ok", "warning", "problem"}
        ``"warning"``: it works, but more slowly or not everywhere. ``"problem"``: it does not work.
    found : str
        The result, as text.
    remedy : str or None
        The suggested change; ``None`` if the status is ``"ok"``.
    """

    name: str
    status: CheckStatus
    found: str
    remedy: str | None = None


def said_by(error: BaseException) -> str:
    """Return an error's problem and limit in one line, without its remedy."""
    parts = getattr(error, "what", None) or str(error), getattr(error, "limit", None)
    return " ".join(". ".join(filter(None, parts)).split())
