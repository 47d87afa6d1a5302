"""One script for each rival, run by the python of its own venv: nothing here is imported by the program itself."""
