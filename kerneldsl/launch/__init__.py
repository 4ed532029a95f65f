"""Launches: the steps from a kernel, its arguments and a shape to a started kernel, one a file.

:mod:`~kerneldsl.launch.pipeline` puts the steps together: request, decision, specialization,
artifact, executable, configuration. Each knows those before it.
"""
