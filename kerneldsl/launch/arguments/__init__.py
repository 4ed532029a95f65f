"""The arguments of a launch: read, compared, checked, and staged where they must be."""
