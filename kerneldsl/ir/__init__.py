"""A typed, structured region IR of one kernel: values, operations, regions."""

from __future__ import annotations
