"""The page that shows all parts of one kind; what it says of a part stands in the part's own file.

python -m pspns.catalogue_page negatives docs/negatives.md
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pspns.components import KINDS, authors_and_year, describe_part, find_part, part_names, part_notes
from pspns.options import Option, all_options
from pspns.search_space import Choices, Span
from pspns.settings import PART_SECTIONS

NEGATIVES = """\
# Negatives

A model learns from rows: a user, an item that the user has, the *positive*, and an item that the user does not have,
the *negative*, which should score lower. Which negative stands beside a positive is the choice of a sampler:

```sh
pspns train --data planted-clustered --negatives dns --negatives.candidates 32 --steps 50 --out runs/dns
```

The same from a file,

```sh
cat > dns.toml <<'EOF'
[negatives]
name = "dns"
candidates = 32

[training]
steps = 50
EOF
pspns train --data planted-clustered --config dns.toml --out runs/dns-from-a-file
```

and in Python:

```python
import pspns

model = pspns.fit("planted-clustered", negatives="dns", candidates=32, steps=50)
print(model.result["test"]["recall@20"]["mean"])
```

Every sampler works with `mf` and `lightgcn`, with any [positives](positives.md), with several seeds at once, on CPU and
GPU, and goes on after `--resume` where it was. DNS with the pairs of PSP-NS, for instance, is
`--recipe paper --negatives dns`.

## Which one

* Begin with `uniform`, the default: nothing is faster, and what another sampler is worth shows only beside it.
* Random negatives soon score low and teach little. `dns` takes harder ones, the harder the more `candidates` it has.
  But the harder a negative is, the more often it is an item that the user would like, and past some point, which
  differs from data to data, figures may fall. So try a few values on validation.
* `dns-m-n`, `ahns` and `srns` choose hard negatives, too, but not always the hardest. With LightGCN on MovieLens-1M and
  Epinions, `srns` was the best of the nine at their defaults under `strict`; `irgan`, and `dns-m-n` and `ahns` in part,
  were far below `uniform` ([figures](results.md)).
* `mixgcf` and `dens` make vectors that are no item's from the layers of LightGCN. `popularity` does not look at the
  model, like `uniform`. `irgan` trains a second model, which scores all items for every user.
* A sampler that was tuned, beside one that was not, says little about the two: [`pspns tune`](tuning.md) gives each the
  same number of trials.

Most defaults are those of published code. Where that code chooses otherwise than the rule says, the rule is the
default, and a setting gives the other ([which and why](decisions/0031-negatives.md)).

## Notation

| | |
|---|---|
| `U`, `I` | all users, all items |
| `u`, `i`, `j` | a row's user, positive and negative |
| `P_u` | what may not be a negative: the user's items in train and, except under `best-on-test`, constructed ones |
| `C` | candidates: items outside `P_u`, each equally likely, one twice perhaps; drawn anew for each row of each step |
| `e⁽ˡ⁾`, `e` | vector in layer `l = 0 … L`, and the mean over layers; in MF, `L = 0` |
| `s_uj` | present score, `e_u · e_j` |
| `d` | length of a vector |
| `σ`, `sp` | sigmoid; softplus, `ln(1 + exp x)` |

Held-out items may be negatives: to leave them out would tell what is held out. No gradient passes through a choice.
*Cost* is in multiplications, beside what a step of training takes anyway.
"""

INTRODUCTIONS = {"negatives": NEGATIVES}


def page(kind: str) -> str:
    """The whole page in Markdown."""
    made_by = f"Made by `python -m pspns.catalogue_page {kind} docs/{kind}.md` from the files of the parts; edit those."
    title, _, rest = INTRODUCTIONS[kind].partition("\n")
    sections = [_section(kind, name, options) for name, options in _options(kind).items()]
    return "\n\n".join([title, made_by, rest.strip(), _overview(kind), *sections]) + "\n"


def _overview(kind: str) -> str:
    rows = []
    for name in part_names(kind):
        notes = part_notes(kind, name)
        paper = authors_and_year(notes.get("paper", ""))
        rows.append((f"[`{name}`](#{name})", describe_part(kind, name), notes.get("cost", ""), paper))
    return f"## All of them\n\n{_table(('name', 'meaning', 'cost', 'paper'), rows)}"


def _section(kind: str, name: str, options: Sequence[Option]) -> str:
    notes = part_notes(kind, name)
    parts = [f"## {name}", describe_part(kind, name)]
    if "rule" in notes:
        parts.append(f"```text\n{notes['rule']}\n```")
    if "note" in notes:
        parts.append(notes["note"][:1].upper() + notes["note"][1:])
    parts.append("\n".join(_facts(kind, name, notes)))
    if options:
        parts.append(_settings(options, getattr(find_part(kind, name), "search", {})))
    return "\n\n".join(parts)


def _facts(kind: str, name: str, notes: dict[str, str]) -> Iterable[str]:
    yield f"* Use: `--{_section_name(kind)} {name}`"
    if "cost" in notes:
        yield f"* Cost: {notes['cost']}"
    if "paper" in notes:
        reference = authors_and_year(notes["paper"])
        yield f"* Paper: {reference}, *{notes['paper'].removeprefix(reference).removeprefix(', ')}*"
    file = f"{KINDS[kind].replace('.', '/')}/{name.replace('-', '_')}.py"
    yield f"* Code: [{file}](../{file})"


def _settings(options: Sequence[Option], search: dict[str, Choices | Span]) -> str:
    rows = []
    for option in options:
        key = option.name.partition(".")[2].replace("-", "_")
        rows.append((f"`--{option.name}`", _word(option.default), option.note, _tried(search.get(key))))
    if search:
        return _table(("setting", "default", "meaning", "`pspns tune` tries"), rows)
    return _table(("setting", "default", "meaning"), [row[:-1] for row in rows])


def _tried(values: Choices | Span | None) -> str:
    match values:
        case None:
            return ""
        case Choices():
            return ", ".join(map(_word, values.values))
        case Span():
            return f"{_word(values.low)} to {_word(values.high)}"


def _word(value: Any) -> str:
    if value is None:
        return "unset"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _options(kind: str) -> dict[str, list[Option]]:
    """Part → its settings."""
    found: dict[str, list[Option]] = {name: [] for name in part_names(kind)}
    for option in all_options():
        if option.name.partition(".")[0] == _section_name(kind):
            found[option.part].append(option)
    return found


def _section_name(kind: str) -> str:
    """The word of options and settings files for parts of a kind."""
    return next(section for section, kind_of_section in PART_SECTIONS.items() if kind_of_section == kind)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m pspns.catalogue_page", description="The page of a kind of parts.")
    parser.add_argument("kind", choices=INTRODUCTIONS, help="which parts")
    parser.add_argument("out", type=Path, help="Markdown file to write")
    options = parser.parse_args()
    options.out.write_text(page(options.kind), encoding="utf-8")
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
