"""Tests of `kerneldsl/planner`."""
