"""Measuring the plans of a launch, and remembering the best."""
