"""What a training step costs with each negative sampler at its defaults, beside one with uniform negatives.

    python -m benchmarks.samplers --data ml-1m.npz --device cuda --replicas 1 3 9 --out benchmarks/results

First the choices of DNS are compared with those of a plain form in float64. Then all samplers train in turns, several
rounds, and the median of each is set against that of uniform negatives. Samplers that do something at the end of an
epoch are timed over a whole epoch, its end included.
"""

from __future__ import annotations

import statistics

import torch

from benchmarks._report import Report
from benchmarks._steps import BATCH, SIZE, STEPS_BEFORE, parse_options, seconds_a_step, world_of, world_words
from pspns.components import find_part, part_names
from pspns.item_sets import RejectedItems
from pspns.shapes import Embeddings, ModelView, PositiveBatch, SharedWorld, World, take

SETTINGS = {"irgan": {"warm_up": 1}}  # by default its generator is not asked for the first epochs
FOLLOW_EPOCHS = ("irgan", "srns")
MOST_FOR_DNS = 1.5  # times a step with uniform negatives, LightGCN on a GPU


def main() -> None:
    options = parse_options("python -m benchmarks.samplers", __doc__.partition("\n")[0])
    world = world_of(options)
    _check_choices(world)
    report = Report(
        f"A step with each negative sampler, {world.device.type}",
        f"{world_words(options, world)} (an epoch for {' and '.join(FOLLOW_EPOCHS)}), in turns. DNS chose as a "
        "plain form in float64 does.",
        ("model", "replicas", "negatives", "ms a step", "beside uniform", "target"),
    )
    for model in options.models:
        for n_replicas in options.replicas:
            times = _time_all(world, model, n_replicas, options.steps, options.rounds)
            for name, seconds in times.items():
                ratio = seconds / times["uniform"]
                is_judged = (model, name, world.device.type) == ("lightgcn", "dns", "cuda")
                verdict = (
                    f"at most {MOST_FOR_DNS}: {'met' if ratio <= MOST_FOR_DNS else 'missed'}" if is_judged else None
                )
                report.add(model, n_replicas, name, f"{1000 * seconds:.3f}", f"{ratio:.2f}", verdict)
    report.write(options.out, f"samplers-{world.device.type}")


def _check_choices(world: World) -> None:
    """DNS chooses the best-scored of its pool, but for scores that are one rounding apart."""
    n_replicas = 2
    users, items = (
        torch.randn(n, n_replicas, SIZE, device=world.device, generator=torch.Generator(world.device).manual_seed(0))
        for n in (world.n_users, world.n_items)
    )
    rejected = RejectedItems([world.rejected] * n_replicas)
    shared = SharedWorld(
        world.n_users, world.n_items, world.train, 0, world.memory, rejected=rejected, embedding_size=SIZE
    )
    rows = torch.arange(BATCH, device=world.device).expand(n_replicas, -1) * 97 % len(world.train)
    of_users, of_items = (
        torch.from_numpy(column).to(world.device)[rows] for column in (world.train.users, world.train.items)
    )
    ones = torch.ones(rows.shape, device=world.device)
    batch = PositiveBatch(of_users, of_items, rows, ones, ones, torch.zeros(n_replicas, dtype=torch.int64))
    tables = Embeddings(users, items)
    part = find_part("negatives", "dns")()
    chosen = part.start(shared, range(n_replicas)).sample(batch, ModelView(tables, tables)).items
    pool = part.start(shared, range(n_replicas))._pool(batch)
    scores = (take(users.double(), of_users)[..., None, :] * take(items.double(), pool)).sum(-1)
    of_chosen = (take(users.double(), of_users) * take(items.double(), chosen)).sum(-1)
    if not ((scores.amax(-1) - of_chosen).abs() < 1e-4).all():
        raise AssertionError("DNS and its plain form choose differently; no time is worth reporting")


def _time_all(world: World, model: str, n_replicas: int, n_steps: int, rounds: int) -> dict[str, float]:
    """Sampler → median seconds of a step."""
    seconds: dict[str, list[float]] = {name: [] for name in part_names("negatives")}
    for _ in range(rounds):
        for name, found in seconds.items():
            part = find_part("negatives", name)(**SETTINGS.get(name, {}))
            an_epoch = -(-len(world.train) // BATCH)
            n_before = STEPS_BEFORE + (an_epoch if name in SETTINGS else 0)
            n_timed = an_epoch if name in FOLLOW_EPOCHS else n_steps
            found.append(seconds_a_step(world, model, n_replicas, n_timed, n_before, negatives=part))
    return {name: statistics.median(found) for name, found in seconds.items()}


if __name__ == "__main__":
    main()
