"""Positives of data that do not fit into memory: pairs wait on disk, and what is built is written as it is made."""
