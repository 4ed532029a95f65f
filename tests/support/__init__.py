"""What several suites share: seeded inputs, comparisons, targets, cases and the SIMT reference."""
