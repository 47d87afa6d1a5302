"""Speed beside the libraries people would pick instead, each in its own venv, on the same data and vectors."""
