"""A plugin of pytest: names that NumPy 2.4 has removed, for packages that use them."""

import numpy as np

for removed, present in {"trapz": "trapezoid", "product": "prod", "in1d": "isin"}.items():
    if not hasattr(np, removed):
        setattr(np, removed, getattr(np, present))
