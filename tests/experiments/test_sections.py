"""What experiments show, as plain values."""

import pytest

from pspns.experiments.sections import Number, Table


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (Number(26.2), "26.20"),
        (Number(26.205, digits=1), "26.2"),
        (Number(1234567.4, digits=0), "1,234,567"),
        (Number(3.14159, sign=True), "+3.14"),
        (Number(-3.14159, sign=True, digits=1, unit=" %"), "-3.1 %"),
        (Number(26.2, spread=0.1149), "26.20 ± 0.11"),
        (Number(26.2, spread=0.0), "26.20 ± 0.00"),
        (Number(0.18, sign=True, low=-0.5, high=0.9), "+0.18 (-0.50 to +0.90)"),
        (Number(5.0, low=4.0, high=6.0), "5.00 (4.00 to 6.00)"),
        (Number(26.2, spread=0.1, note="limit"), "26.20 ± 0.10 limit"),
        (Number(-0.001), "0.00"),
        (Number(-0.001, sign=True, low=-0.004, high=0.0), "+0.00 (+0.00 to +0.00)"),
    ],
)
def test_a_number_is_written_with_all_that_belongs_to_it(number, text):
    assert str(number) == text


@pytest.mark.parametrize("row", [(("a",), (None,)), (("a", "b"), (None, None))])
def test_a_row_that_does_not_fit_its_table_is_refused(row):
    with pytest.raises(ValueError, match="do not fit"):
        Table("t", "caption", ("method",), ("paper", "ours"), (row,))
    Table("t", "caption", ("method",), ("paper", "ours"), ((("a",), (None, None)),))
