"""Tests of `kerneldsl/frontend/tiles`."""
