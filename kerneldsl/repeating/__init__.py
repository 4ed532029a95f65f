"""Calls of functions that launch kernels: recorded once, and made again without their planning.

:mod:`~kerneldsl.repeating.recorded_calls` records the launches of a call, and has what functions
launch by. :mod:`~kerneldsl.repeating.recorded` makes them again with other arrays of the same
forms, and :mod:`~kerneldsl.repeating.recorded` decides which arrays may share memory.
"""
