"""Tests of `kerneldsl/placement/fallback.py` and `kerneldsl/launch/recovery.py`."""
