"""What may look wrong in data, one file for each theme."""
