"""Cards: what notebooks show of kernels, launches, plans, timings, devices and arrays.

A class that has a card inherits :class:`kerneldsl.utilities.shown.Shown`. `bundle` finds the
function that makes it, in a module of this package for each kind of thing. All HTML is written by
:mod:`kerneldsl.utilities.html`. A card shows what is known already: nothing is launched or compiled
for one, and if it cannot be made the plain repr remains.
"""

__all__: list[str] = []
