"""Health check of this machine: problems, and the remedy of each."""

from __future__ import annotations

from kerneldsl.doctor.checkup import preflight
from kerneldsl.doctor.report import Report
from kerneldsl.target.checks import Check

__all__ = ["Check", "Report", "preflight"]
