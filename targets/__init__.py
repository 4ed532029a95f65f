"""The built-in targets: ``cpu``, ``cuda`` and ``null``, each a client of :mod:`kerneldsl`.

Importing this package imports none of them; the core loads the one that a launch needs.
"""

from __future__ import annotations

__all__ = ["__kerneldsl__"]

#: Tells the core that this package, and not a foreign one of the same name, has been found.
__kerneldsl__ = True
