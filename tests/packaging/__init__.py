"""The distribution: wheel, imports, command lines, documentation."""
