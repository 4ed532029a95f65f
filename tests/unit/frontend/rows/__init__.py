"""Tests of `kerneldsl/frontend/rows`."""
