"""Rows of arrays: reductions, and statements that go through whole arrays."""
