"""Tests of `kerneldsl/frontend`."""
