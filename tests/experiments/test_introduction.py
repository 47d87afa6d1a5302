"""What stands before the figures: the paper, its method, and every name that tables have."""

import re

from pspns.components import part_names
from pspns.experiments import published
from pspns.experiments.introduction import NAMES, introduction, names_words
from pspns.experiments.methods import method_words
from pspns.experiments.planted_truth import WORLDS


def test_every_name_of_the_papers_tables_is_explained_and_no_other():
    explained = {name for names in NAMES for name in names.split(", ")}
    methods = {method for table in published.tables().values() for method in table.methods}
    own_words = {"PSP-NS", "1-hop*2"}  # the one has a paragraph, the other is 1-hop twice
    ours = {"popular", "svd", "EASE", "recommended"}
    assert {"popular", "svd", "ease"} <= set(part_names("models"))
    assert explained == {method_words(method) for method in methods} - own_words | ours | set(WORLDS)


def test_the_paper_is_named_and_marks_are_closed():
    said = introduction()
    assert all(author in said[0] for author in published.paper()["authors"])
    assert published.paper()["title"] in said[0]
    for words in (*said, names_words()):
        assert words.count("*") % 2 == words.count("`") % 2 == 0
    assert not re.search(r"  |\n", " ".join(said))
