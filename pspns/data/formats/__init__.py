"""One file per file format; its name is what users set as `format`."""
