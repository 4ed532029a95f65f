"""Tests of `targets`."""
