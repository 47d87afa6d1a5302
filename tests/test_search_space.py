"""Spaces that can be searched."""

import pytest

from pspns.errors import SettingsError
from pspns.search_space import Choices, Span


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Choices(()), "at least one"),
        (lambda: Choices((1, 2, 1)), "distinct"),
        (lambda: Span(low=1.0, high=1.0), "below its high one"),
        (lambda: Span(low=0.0, high=1.0, log=True), "must begin above 0"),
        (lambda: Span(low=0.5, high=2, whole=True), "whole ends"),
    ],
)
def test_spaces_that_are_none(make, complaint):
    with pytest.raises(SettingsError, match=complaint):
        make()
