"""Health check of this machine: problems, and the remedy of each."""

from __future__ import annotations

from kerneldsl.contract.checks import Check
from kerneldsl.tools.doctor.checkup import Report, preflight

__all__ = ["Check", "Report", "preflight"]
