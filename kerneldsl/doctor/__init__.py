"""Whether this machine is fit for kernels: what was found, and what to do about each problem."""

from __future__ import annotations

from kerneldsl.doctor.checkup import preflight
from kerneldsl.doctor.report import Report
from kerneldsl.target.checks import Check

__all__ = ["Check", "Report", "preflight"]
