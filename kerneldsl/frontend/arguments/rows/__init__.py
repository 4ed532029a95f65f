"""Rows of arrays in statements and expressions, as loops over their elements."""
