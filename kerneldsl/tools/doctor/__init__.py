"""Health check of this machine: problems, and the remedy of each."""

from __future__ import annotations

from kerneldsl.contract.checks import Check
from kerneldsl.tools.doctor.checkup import preflight
from kerneldsl.tools.doctor.report import Report

__all__ = ["Check", "Report", "preflight"]
