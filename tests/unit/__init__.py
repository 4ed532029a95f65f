"""Tests of single modules, in folders as those of the product."""
