"""The commands and their options; each is thin and calls what does the work."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from pspns.errors import SettingsError


class Command(TyperCommand):
    """Refuses an option given twice, or without its value, where the last one or the next option would be taken."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        takes_value = {
            name
            for option in self.params
            if option.param_type_name == "option" and not getattr(option, "is_flag", False)
            for name in option.opts
        }
        for word, following in pairwise(args):
            if word in takes_value and following.startswith("--"):
                raise SettingsError(f"the command line: {word} needs a value, got {following}")
        _, _, in_order = self.make_parser(ctx).parse_args(args=list(args))
        for option in in_order:
            if in_order.count(option) > 1 and not getattr(option, "multiple", False):
                raise SettingsError(f"the command line: {option.opts[0]} is given twice; give it once")
        return super().parse_args(ctx, args)


app = typer.Typer(
    name="pspns",
    help="Train recommenders from clicks, plays and purchases, and learn the truth about what helps on your data.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

RunFolders = Annotated[list[Path], typer.Argument(metavar="DIR…", help="Folders that `pspns train` wrote.")]
OneRun = Annotated[Path, typer.Argument(metavar="DIR", help="A folder that `pspns train` wrote.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the file in --out if there is one.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def _version(wanted: bool) -> None:
    if wanted:
        import pspns

        typer.echo(f"pspns {pspns.__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    pass


@app.command(
    cls=Command,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    epilog="Every other setting is an option too: --training.batch-size 512, or --batch-size 512 where only one "
    "section has it. `pspns list settings` shows all.",
)
def train(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="Folder to write; must not exist yet.", show_default=False)],
    data: Annotated[str | None, typer.Option(help="A file, a folder with train/valid/test files, or a name.")] = None,
    model: Annotated[str | None, typer.Option(help="mf, lightgcn, or a baseline: popular, svd, ease.")] = None,
    recipe: Annotated[str, typer.Option(help="plain, paper (PSP-NS as published) or recommended.")] = "plain",
    negatives: Annotated[
        str | None, typer.Option(help="Which negatives; `pspns list negatives` shows all.", show_default=False)
    ] = None,
    denoiser: Annotated[
        str | None, typer.Option(help="What doubts pairs; `pspns list denoisers` shows all.", show_default=False)
    ] = None,
    protocol: Annotated[str | None, typer.Option(help="strict (default), published, best-on-test.")] = None,
    split: Annotated[str | None, typer.Option(help="random, per-user, leave-one-out, global-time, none.")] = None,
    noise: Annotated[
        str | None, typer.Option(help="Random false pairs for train, as a share of its own.", show_default=False)
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="One replica for each, such as 0-2 or 0,7.")] = None,
    data_seed: Annotated[str | None, typer.Option(help="Drives the split, the noise and the SVD.")] = None,
    steps: Annotated[str | None, typer.Option(help="Exactly this many steps, no early stopping.")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings; options here win over it.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or auto (default).")] = None,
    threads: Annotated[str | None, typer.Option(help="CPU threads.")] = None,
    baselines: Annotated[bool | None, typer.Option(help="Judge popular, svd and ease beside the model.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier run in --out.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run into --out that was stopped.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what it would take; train and write nothing.")
    ] = False,
) -> None:
    """Train a model, judge it beside baselines, and write all of it to a folder."""
    from pspns.cli.train import estimate_and_show, resolve_settings, train_and_show

    given = {
        "data": data,
        "model": model,
        "negatives": negatives,
        "denoiser": denoiser,
        "protocol": protocol,
        "split": split,
        "noise": noise,
        "seeds": seeds,
        "data-seed": data_seed,
        "steps": steps,
        "device": device,
        "threads": threads,
        "baselines": baselines,
    }
    options = {name: value for name, value in given.items() if value is not None}
    settings = resolve_settings(options, context.args, recipe, config)
    if dry_run:
        estimate_and_show(settings)
    else:
        train_and_show(settings, out, overwrite=overwrite, resume=resume)


@app.command(
    cls=Command,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    epilog="Every other setting of data, positives, weighting and run is an option too: --neighbours fixed, "
    "--columns user=visitor,item=thing. `pspns list settings` shows all.",
)
def build(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="Folder to write; must not exist yet.", show_default=False)],
    data: Annotated[str | None, typer.Option(help="A file or a name: every row; a folder: its train part.")] = None,
    positives: Annotated[str | None, typer.Option(help="Which pairs; `pspns list positives` shows all.")] = None,
    weighting: Annotated[str | None, typer.Option(help="User weights: none, log, inverse-sqrt, …")] = None,
    rank: Annotated[str | None, typer.Option(help="Singular values kept (q in the paper).")] = None,
    copies: Annotated[str | None, typer.Option(help="Copies of pairs observed and proposed (s).")] = None,
    sensitivity: Annotated[str | None, typer.Option(help="How strongly activity counts (a).")] = None,
    recipe: Annotated[str, typer.Option(help="A named bundle of settings.")] = "paper",
    protocol: Annotated[str | None, typer.Option(help="strict (default), or published, which needs a folder.")] = None,
    data_seed: Annotated[str | None, typer.Option(help="Drives the SVD.")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings; options here win over it.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or auto (default).")] = None,
    threads: Annotated[str | None, typer.Option(help="CPU threads.")] = None,
    out_of_core: Annotated[
        bool, typer.Option("--out-of-core", help="Keep pairs on disk meanwhile, for data larger than memory.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier build in --out.")] = False,
) -> None:
    """Build positive pairs, copies and user weights for any trainer, and write them as Parquet."""
    from pspns.cli.build import build_and_show

    given = {
        "data": data,
        "positives": positives,
        "weighting": weighting,
        "rank": rank,
        "copies": copies,
        "sensitivity": sensitivity,
        "protocol": protocol,
        "data-seed": data_seed,
        "device": device,
        "threads": threads,
    }
    options = {name: value for name, value in given.items() if value is not None}
    build_and_show(options, context.args, recipe, config, out, out_of_core=out_of_core, overwrite=overwrite)


@app.command(
    cls=Command,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    epilog="Every setting of `pspns train` is an option too and holds for every trial: --patience 5, --batch-size 512. "
    "`pspns list settings` shows all.",
)
def tune(
    context: typer.Context,
    methods: Annotated[
        str,
        typer.Option(help="What to compare, such as plain,dns,paper+t-ce: recipes and parts.", show_default=False),
    ],
    trials: Annotated[int, typer.Option(help="How many settings to try of each method.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder to write; must not exist yet.", show_default=False)],
    data: Annotated[str | None, typer.Option(help="A file, a folder with train/valid/test files, or a name.")] = None,
    model: Annotated[str | None, typer.Option(help="mf or lightgcn.")] = None,
    search: Annotated[
        list[str] | None, typer.Option(help="Values to try of a setting: l2=1e-5,1e-4. Several times if needed.")
    ] = None,
    at_once: Annotated[int, typer.Option(help="Trials of each method in a round, which learns from those before.")] = 4,
    seed: Annotated[int, typer.Option(help="Drives what is tried.")] = 0,
    protocol: Annotated[str | None, typer.Option(help="strict (default) or published.")] = None,
    seeds: Annotated[str | None, typer.Option(help="One replica of each trial for each, such as 0-2.")] = None,
    max_steps: Annotated[str | None, typer.Option(help="The most steps of a trial.")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings; options here win over it.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or auto (default).")] = None,
    threads: Annotated[str | None, typer.Option(help="CPU threads.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier study in --out.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the study in --out, perhaps with more --trials.")
    ] = False,
) -> None:
    """Tune methods fairly: as many trials for each, on validation; every trial is recorded."""
    from pspns.cli.tune import resolve_study, tune_and_show

    given = {
        "data": data,
        "model": model,
        "protocol": protocol,
        "seeds": seeds,
        "max-steps": max_steps,
        "device": device,
        "threads": threads,
    }
    options = {name: value for name, value in given.items() if value is not None}
    study = resolve_study(
        methods, options, context.args, search or [], config, trials=trials, at_once=at_once, seed=seed
    )
    tune_and_show(study, out, overwrite=overwrite, resume=resume)


@app.command(cls=Command)
def experiment(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME…", help="What to run, or all; nothing: the list of names.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="Data sets, as in ml-1m,planted, folders or files; unset: each experiment's own."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of records and page; unset: reproduction, or quick-look with --quick.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A look at how it works, in a minute or two; its figures mean little.")
    ] = False,
    seeds: Annotated[
        str | None, typer.Option(metavar="<int>", help="How many seeds every training has; unset: 10 or 3.")
    ] = None,
    max_steps: Annotated[
        str | None, typer.Option(metavar="<int>", help="The most steps of a training; unset: 200,000.")
    ] = None,
    patience: Annotated[
        str | None, typer.Option(metavar="<int>", help="Evaluations without improvement; unset: 10.")
    ] = None,
    trials: Annotated[
        str | None, typer.Option(metavar="<int>", help="Settings tried of each method that is tuned; unset: 5.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or auto (default).")] = None,
    precision: Annotated[str | None, typer.Option(help="float32 (default), or mixed on a GPU.")] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Take records that are there, whatever settings they were made with.")
    ] = False,
    only_report: Annotated[
        bool, typer.Option("--only-report", help="Train nothing; show the records that are there.")
    ] = False,
) -> None:
    """Run the paper's tables and claims, and write a page; goes on where it was stopped."""
    if not names:
        given = (data, out, quick, seeds, max_steps, patience, trials, device, precision, keep, only_report)
        if any(given):
            raise SettingsError("options were given, but no experiment; name one, or all: pspns experiment lists them")
        from pspns.cli.listing import show_list

        show_list("experiments", as_json=False)
        return
    from pspns.cli.experiment import experiment_and_show
    from pspns.experiments.request import QUICK_DATA, terms_of
    from pspns.option_values import convert

    terms = terms_of(
        quick=quick,
        seeds=convert(int | None, seeds, "--seeds"),
        max_steps=convert(int | None, max_steps, "--max-steps"),
        patience=convert(int | None, patience, "--patience"),
        trials=convert(int | None, trials, "--trials"),
        device=device,
        precision=precision,
    )
    experiment_and_show(
        names,
        ",".join(QUICK_DATA) if quick and data is None else data,
        out or Path("quick-look" if quick else "reproduction"),
        terms,
        keep=keep,
        only_report=only_report,
    )


@app.command(cls=Command)
def evaluate(
    folder: OneRun,
    k: Annotated[str | None, typer.Option("--k", "-k", help="List lengths, such as 20,30; unset: the run's.")] = None,
    as_json: Json = False,
) -> None:
    """Judge a trained model again, at other list lengths, by user group and under other masks."""
    from pspns.cli.evaluate import evaluate_and_show

    evaluate_and_show(folder, k, as_json=as_json)


@app.command(cls=Command)
def compare(
    folders: RunFolders,
    metric: Annotated[str, typer.Option(help="The metric that ranks and whose differences are tested.")] = "recall@20",
    as_json: Json = False,
) -> None:
    """Put runs side by side, with intervals and tests over users; never across data or protocols."""
    from pspns.cli.compare import compare_and_show

    compare_and_show(folders, metric, as_json=as_json)


@app.command(cls=Command)
def recommend(
    folder: OneRun,
    user: Annotated[str | None, typer.Option(help="Whom to recommend to.")] = None,
    items: Annotated[str | None, typer.Option(help="Items of a new user, as a,b,c: fold them in.")] = None,
    everybody: Annotated[bool, typer.Option("--all", help="Recommend to everybody; needs --out.")] = False,
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="How many items.")] = 10,
    exclude: Annotated[str, typer.Option(help="Leave out items known from: all, train, none.")] = "all",
    out: Annotated[Path | None, typer.Option(help="Write a .parquet or .csv file instead of a table.")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Recommend items to one user, a new one, or everybody."""
    from pspns.cli.recommend import recommend_and_show

    recommend_and_show(folder, user, items, everybody, k, exclude, out, overwrite=overwrite)


@app.command(cls=Command)
def report(
    folders: RunFolders,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    overwrite: Overwrite = False,
) -> None:
    """Write one self-contained HTML page about one or several runs."""
    from pspns.cli.report import write_report

    write_report(folders, out, overwrite=overwrite)


@app.command(name="list", cls=Command)
def list_parts(
    kind: Annotated[str | None, typer.Argument(help="What to list; nothing: the kinds.")] = None,
    as_json: Json = False,
) -> None:
    """List models, negatives, denoisers, data sets, metrics, settings and all other parts there are."""
    from pspns.cli.listing import show_list

    show_list(kind, as_json=as_json)


data_app = typer.Typer(help="Look at data, check them, and get known data sets.", no_args_is_help=True)
app.add_typer(data_app, name="data")

READING_OPTIONS: dict[str, Any] = {
    "cls": Command,
    "context_settings": {"allow_extra_args": True, "ignore_unknown_options": True},
    "epilog": "How to read the data is said as for `pspns train`: --columns user=visitor,item=thing, --separator tab, "
    "--min-rating 3. `pspns list settings` shows all, those that begin with --data.",
}


@data_app.command(name="list", cls=Command)
def list_data_sets(
    folder: Annotated[str | None, typer.Option(help="Where data sets lie; unset: PSPNS_DATA.")] = None,
    as_json: Json = False,
) -> None:
    """List the known data sets: how large they are, and whether they are on this machine."""
    from pspns.cli.datasets import show_datasets

    show_datasets(folder, as_json=as_json)


@data_app.command(name="get", cls=Command)
def get_data_set(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A known data set; `pspns data list` shows them.")],
    folder: Annotated[str | None, typer.Option(help="Where data sets lie; unset: PSPNS_DATA.")] = None,
) -> None:
    """Fetch a known data set, or find it on this machine, and check that it is the right one."""
    from pspns.cli.datasets import get_dataset

    get_dataset(name, folder)


@data_app.command(name="show", **READING_OPTIONS)
def show_data(
    context: typer.Context,
    data: Annotated[str, typer.Argument(metavar="DATA", help="A file, a folder with train/test files, or a name.")],
    as_json: Json = False,
) -> None:
    """Show users, items, pairs, density, and how the pairs are spread."""
    from pspns.cli import inspect_data
    from pspns.cli.rest import data_settings

    inspect_data.show_data(data_settings(data, context.args), as_json=as_json)


@data_app.command(name="check", **READING_OPTIONS)
def check_data(
    context: typer.Context,
    data: Annotated[str, typer.Argument(metavar="FILE", help="A file, or a folder with train and test files.")],
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if there is a warning.")] = False,
    as_json: Json = False,
) -> None:
    """Read a file and say in plain words what it holds and what looks wrong."""
    from pspns.cli import inspect_data
    from pspns.cli.rest import data_settings

    inspect_data.check_data(data_settings(data, context.args), strict=strict, as_json=as_json)
