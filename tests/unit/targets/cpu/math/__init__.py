"""Tests of the CPU target's own mathematical functions."""
