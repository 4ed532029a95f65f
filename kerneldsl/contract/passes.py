"""Optimizing passes of compilers: which there are, and what each did to a kernel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from kerneldsl.errors import SourceLocation
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["PassInfo", "PassRemark", "Report", "ignore_remark"]


class PassInfo(NamedTuple):
    """An optimizing pass, which ``KERNELDSL_DISABLE_PASSES`` disables by its name.

    Parameters
    ----------
    name : str
        Its name, such as ``"unroll-strides"``.
    purpose : str
        What it does, a sentence.
    stage : str
        The form of the code that it rewrites, such as ``"PTX"``.
    """

    name: str
    purpose: str
    stage: str


@dataclass(frozen=True)
class PassRemark:
    """Result of a pass on a kernel, or the reason why the pass did not change it.

    Parameters
    ----------
    name : str
        The pass.
    count : int
        To how many loops, addresses, or whatever `text` names.
    text : str
        What it did, such as ``"2 loops unrolled by four"``.
    where : tuple of SourceLocation
        Their places in the source; empty if the pass does not know them.
    is_missed : bool
        Whether `text` says why the pass changed nothing of them.
    """

    name: str
    count: int
    text: str
    where: tuple[SourceLocation, ...] = ()
    is_missed: bool = False

    def __str__(self) -> str:
        lines = ", ".join(dict.fromkeys(str(each.lineno) for each in self.where))
        place = f" (line{'s' * (',' in lines)} {lines})" if lines else ""
        return f"{self.name}: {self.text}{place}"

    def to_dict(self) -> dict[str, Any]:
        """Return it as numbers and text alone."""
        return {
            "name": self.name,
            "count": self.count,
            "text": self.text,
            "where": [{"file": each.filename, "line": each.lineno} for each in self.where],
            "is_missed": self.is_missed,
        }


class Report(Protocol):
    """Records a remark of the pass that it is given to."""

    def __call__(
        self,
        noun: str,
        done: str,
        count: int = 1,
        *,
        where: Iterable[SourceLocation] = (),
        is_missed: bool = False,
    ) -> None:
        """Record what was done to a number of things; repeated remarks are added up."""


def ignore_remark(
    noun: str,
    done: str,
    count: int = 1,
    *,
    where: Iterable[SourceLocation] = (),
    is_missed: bool = False,
) -> None:
    """Record nothing."""
