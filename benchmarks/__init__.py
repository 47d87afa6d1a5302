"""Speed as a ratio to a plain reference in the same run, after both have been checked to give the same answer."""
