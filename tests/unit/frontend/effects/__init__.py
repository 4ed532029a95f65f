"""Tests of `kerneldsl/frontend/effects`."""
