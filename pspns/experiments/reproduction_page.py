"""The reproduction in words: every figure of it comes from a record.

python -m pspns.experiments.reproduction_page results/cells docs/reproduction.md
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from pspns.cli.output_file import check_place
from pspns.errors import PspnsError
from pspns.experiments.headline import headline
from pspns.experiments.introduction import introduction, names_words
from pspns.experiments.markdown import escaped, row_line, section_lines, wrapped
from pspns.experiments.paper_figures import figure_by_figure
from pspns.experiments.records import Records, check_records
from pspns.experiments.reproduction import experiment_names, find_experiment
from pspns.experiments.sections import Section

INTRODUCTION = (
    "The tables and claims of the PSP-NS paper, run anew; what has not been run yet is named at the end. Made by "
    "`python -m pspns.experiments.reproduction_page` from the records in [{folder}]({folder}): figures in tables lead "
    "to the record they were read from. What the paper prints is transcribed in one file, and stands beside ours; "
    "what was tried where ours are far from it is told in another, which has figures of [results](results.md).",
    "± is the standard deviation over seeds. More on both rules stands in [protocols](protocols.md), on limits of "
    "steps and other options in [experiments](experiments.md): training ends after 5 evaluations without improvement, "
    "of six records after 10, as in the paper. The same with plots is the page that `pspns experiment all` ends in.",
)


def page(records_folder: Path, folder: str) -> str:
    """The whole document; `folder` is where the records lie, seen from it."""
    records = Records(records_folder)
    experiments = {name: find_experiment(name) for name in experiment_names()}
    sections = {name: one.section(records, one.data) for name, one in experiments.items()}
    data_names = list(dict.fromkeys(data for one in experiments.values() for data in one.data))
    return "\n".join(
        [
            "# The paper, reproduced",
            "",
            *(line for words in INTRODUCTION for line in (wrapped(words.format(folder=folder)), "")),
            *(line for words in (*introduction(), names_words()) for line in (wrapped(words), "")),
            *section_lines(headline(records, data_names), folder),
            *(line for section in sections.values() for line in section_lines(section, folder)),
            *section_lines(figure_by_figure(records, data_names), folder),
            *_missing(sections),
        ]
    )


def _missing(sections: Mapping[str, Section]) -> Iterator[str]:
    """How many records are not there, not which: that would be hundreds of names."""
    missing = {name: section.missing for name, section in sections.items() if section.missing}
    yield from ("## What is missing", "")
    if not missing:
        yield from ("No record is missing.", "")
        return
    n_distinct = len({record for records in missing.values() for record in records})
    yield from (wrapped(f"{n_distinct:,} records are not there yet; several experiments may ask for the same one."), "")
    yield from (row_line(("experiment", "missing", "such as")), "|---|---:|---|")
    for name, records in missing.items():
        yield row_line((name, f"{len(records):,}", escaped(records[0])))
    yield ""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m pspns.experiments.reproduction_page", description="The reproduction in words."
    )
    parser.add_argument("records", type=Path, help="folder of records")
    parser.add_argument("out", type=Path, help="Markdown file to write")
    options = parser.parse_args()
    try:
        check_records(options.records)
        check_place(options.out, overwrite=True)  # which is made anew whenever there are other records
    except PspnsError as error:
        parser.error(str(error))
    folder = Path(os.path.relpath(options.records, options.out.parent)).as_posix()
    options.out.write_text(page(options.records, folder), encoding="utf-8")
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
