"""Loops of threads that run for many neighbouring threads at once."""
