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

DENOISERS = """\
# Denoisers

Not every click is a like: some observed pairs are noise. A *denoiser* judges the rows of every batch while the model
learns. It leaves pairs out, gives them less weight, exchanges them for others or takes their label back. It knows train
alone, and never which pairs are false; recommendations are scored by the model alone.

```sh
pspns train --data planted-clustered --denoiser t-ce --drop-rate 0.1 --ramp-epochs 2 --steps 50 --out runs/t-ce
```

The same from a file,

```sh
cat > t-ce.toml <<'EOF'
[denoiser]
name = "t-ce"
drop_rate = 0.1
ramp_epochs = 2.0

[training]
steps = 50
EOF
pspns train --data planted-clustered --config t-ce.toml --out runs/t-ce-from-a-file
```

and in Python:

```python
import pspns

model = pspns.fit("planted-clustered", denoiser="t-ce", drop_rate=0.1, ramp_epochs=2, steps=50)
print(model.result["denoiser"])
```

`denoiser` in the result says how much of their weight pairs kept. Every denoiser works with `mf` and `lightgcn`, with
any [positives](positives.md) and user weights, with several seeds at once, on CPU and GPU, and goes on after `--resume`
where it was. [What they did](results.md#denoisers) on two data sets, with both models, with and without noise.
[`pspns tune`](tuning.md) takes them as methods: `--methods plain,t-ce,paper+r-ce`.

## What goes with what

* **Loss.** `t-ce`, `r-ce` and `dcf` take `--loss bpr`, the default, or `bce`, with which they were published. `bod` and
  `pld` are for `bpr`. `deca` and `deca-p` have a pointwise loss of their own and want `--loss bce`.
* **Negatives.** `t-ce`, `r-ce` and `bod` go with every [sampler](negatives.md). `dcf`, `deca`, `deca-p` and `pld` look
  at the items that are drawn, and so do not go with `mixgcf`, `dens` and, if it has `sum_over_best`, `dns-m-n`, which
  make vectors or losses of their own. What does not go together is refused before anything runs.
* **Ramps.** `t-ce` and `dcf` leave out more and more, over `ramp_epochs`. The ramp must be shorter than training: where
  training ends early on it, it was plain training. With `bce`, `drop_rate` counts positives and negatives alike, so
  that of the positives about twice as many go.
* **What is doubted.** With `bpr`, `t-ce` leaves out the rows with the largest loss, as others have carried it over, and
  a random negative has its share in that: what goes is what the model would learn most from. On MF that cost up to half
  of the Recall; `--rank-by positive`, which asks the positive alone, cost nothing ([measured](results.md#denoisers)).
* **Time.** `deca-p` trains twice, the first time plainly.
* **Users.** `pld` draws each user as often as any other, which by itself is a weighting against active users. Beside
  plain training that compares two things at once; `--users interaction` leaves the users as they are.
* **Terms.** `bod` adds alignment and uniformity to what its weights do. `--weigh false` keeps the two and makes all
  weights 1; without that control nothing can be said about the weights.

## Controls

Plain training, `--denoiser none`, with the same loss: `deca` with `bce` beside plain training with `bpr` would be a
comparison of losses.

Plain training whose best step is chosen by a loss on validation, without the pairs that have the highest, because
validation is noisy, too:

```sh
pspns train --data planted-clustered --loss bce --select-by revised-valid-loss --max-steps 100 --out runs/revised
```

It is the mean BCE of the validation pairs and as many random negatives, drawn once; lower is better. `--loss-trim` is
the share of the pairs that is left out (0.2), and `valid-loss` leaves out none. BCE takes scores for log-odds, which
those of `svd` and `ease` are not, so beside such a run Recall chooses the settings of these.

False pairs that are known to be false: `--noise 0.2` adds some to train, and the record says how much weight true and
false pairs kept ([more](noise.md)).

**No denoiser wins everywhere.** A recent audit (*Are We Really Making Recommendations Robust?*, RecSys 2025) found none
that wins consistently, and that plain training, evaluated better, can match them. So let both controls stand beside a
denoiser, tuned alike, over several seeds.

Most defaults are those of published code. Where that code does other than the rule says, mostly by a slip, the rule is
the default, and a switch named by what it does gives the other ([which and why](decisions/0033-denoisers.md)).

## Notation

| | |
|---|---|
| `u`, `i`, `j` | a row's user, positive and negative |
| `s_ui`, `Δ` | present score, `e_u · e_i`; `s_ui − s_uj` |
| `ℓ` | loss of a row, as `--loss` says: `softplus(−Δ)`, or the mean of `softplus(−s_ui)` and `softplus(s_uj)` |
| `L` | what is made small, before the weights of users and pairs and the L2 term |
| `B`, `t`, `T` | rows of a batch; steps and epochs that have ended |
| `ε`, `ε_t` | share of a batch that is left out, in the end and now |
| `e`, `e⁰`, `ê` | final vector; parameters; final vector made to length 1 |
| `d` | length of a vector |
| `σ`, `softplus` | sigmoid; `ln(1 + exp x)` |
| `KL` | divergence of two probabilities that a pair is liked |

No gradient passes through a weight or a choice. *Cost* is beside what a step of training takes anyway.
"""

INTRODUCTIONS = {"negatives": NEGATIVES, "denoisers": DENOISERS}


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
    losses = getattr(find_part(kind, name), "losses", ())
    if isinstance(losses, tuple) and losses:  # of a part whose settings decide, this is a property
        yield f"* Loss: {' or '.join(f'`{loss}`' for loss in losses)}"
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
