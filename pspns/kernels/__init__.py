"""Loops for the CPU that numba compiles; whatever is here has a plain form in torch or numpy that tests hold it to."""
