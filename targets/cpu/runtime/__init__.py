"""Run compiled code: artifacts, threads, signals, memory, linking, stored code."""
