"""Tuning: the same number of trials for every method, on validation."""
