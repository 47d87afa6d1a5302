"""Experiments that need only the engine: `python -m pspns.experiments` runs where there is numpy and torch."""
