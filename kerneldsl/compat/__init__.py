"""Vocabularies of other projects, for programs that are written in them."""
