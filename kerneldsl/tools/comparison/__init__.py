"""Two runs of a benchmark compared: which of its figures have changed, by statistics.

:mod:`~kerneldsl.tools.comparison.figures` finds the figures in a benchmark's JSON,
:mod:`~kerneldsl.tools.comparison.compare` distinguishes a change from chance, and
:mod:`~kerneldsl.tools.comparison.compare` puts the two together.
"""
