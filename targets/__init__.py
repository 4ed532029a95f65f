"""The built-in targets: ``cpu``, ``cuda`` and ``null``, each a client of :mod:`kerneldsl`.

Importing this package imports none of them; the core loads the one that a launch needs.
"""
