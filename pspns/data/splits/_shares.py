"""The shares of a split, checked and in words."""

from __future__ import annotations

from pspns.errors import SettingsError


def check_shares(valid_share: float, test_share: float) -> None:
    """Both shares lie in [0, 1) and leave something to train on."""
    for name, share in (("valid_share", valid_share), ("test_share", test_share)):
        if not 0 <= share < 1:
            raise SettingsError(f"{name} must be at least 0 and below 1, got {share:g}; change [split] {name}")
    if valid_share + test_share >= 1:
        raise SettingsError(
            f"valid_share + test_share must leave something for train, got {valid_share:g} + {test_share:g}; "
            "lower [split] valid_share or test_share"
        )


def shares_text(valid_share: float, test_share: float) -> str:
    """The three shares in percent.

    >>> shares_text(0.1, 0.2)
    '70:10:20'
    """
    train_share = 1 - valid_share - test_share
    return ":".join(f"{100 * share:.3g}" for share in (train_share, valid_share, test_share))
