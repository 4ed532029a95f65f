"""Profiles: what a program launched, copied, allocated, compiled and waited for, and for how long.

:mod:`~kerneldsl.profiling.recorder` takes spans while a profile is active, of the calls that the
contract of targets and the dispatcher mark (:mod:`kerneldsl.utilities.observed`).
:mod:`~kerneldsl.profiling.recorder` says what a call is of. A
:class:`~kerneldsl.profiling.profile.Profile` makes activities of them, which the summary, the trace
and the picture read.
"""
