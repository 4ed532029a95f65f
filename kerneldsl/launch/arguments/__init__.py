"""The arguments of a launch: read, compared, checked, and staged if they must be."""
