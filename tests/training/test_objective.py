import math

import pytest
import torch
from toy import toy_world

from pspns.denoising._denoising import Denoising
from pspns.negatives.uniform import UniformNegatives
from pspns.shapes import Embeddings, ModelView, Negatives, PositiveBatch
from pspns.training.epochs import Epochs
from pspns.training.objective import objective


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


@pytest.mark.parametrize(
    ("loss", "by_hand"),
    [
        ("bpr", lambda p, n: -math.log(sigmoid(p - n))),
        ("bce", lambda p, n: (-math.log(sigmoid(p)) - math.log(1 - sigmoid(n))) / 2),
    ],
)
def test_equals_a_loop_over_rows(loss, by_hand):
    torch.manual_seed(0)
    users, items = torch.randn(5, 2, 3), torch.randn(6, 2, 3)
    embeddings = Embeddings(users, items)
    batch = PositiveBatch(
        users=torch.tensor([[0, 1, 4], [2, 2, 0]]),
        items=torch.tensor([[3, 0, 5], [1, 4, 0]]),
        pair_ids=torch.zeros(2, 3, dtype=torch.int64),
        weights=torch.tensor([[1.0, 2.0, 0.5], [3.0, 1.0, 7.0]]),
        live=torch.tensor([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0]]),
        epochs=torch.zeros(2, dtype=torch.int64),
    )
    drawn = torch.tensor([[1, 2, 0], [0, 5, 3]])
    vectors = torch.stack([items[drawn[r], r] for r in range(2)])
    found = objective(
        batch, Negatives(drawn, vectors, vectors), ModelView(embeddings, embeddings), Denoising(loss), 0.01
    )[0]
    for r, n_live in ((0, 3), (1, 2)):
        expected = 0.0
        for row in range(n_live):
            u, i, j = users[batch.users[r, row], r], items[batch.items[r, row], r], items[drawn[r, row], r]
            expected += float(batch.weights[r, row]) * by_hand(float(u @ i), float(u @ j)) / n_live
            expected += 0.01 * float(u @ u + i @ i + j @ j) / (2 * n_live)
        assert found[r].item() == pytest.approx(expected, rel=1e-5)


def test_weight_two_equals_the_pair_listed_twice():
    """Of a full batch, with the same negatives and no L2, up to the number of rows that divides the sum."""
    torch.manual_seed(0)
    users, items, negatives = torch.randn(1, 1, 4), torch.randn(3, 1, 4), torch.randn(1, 3, 4)

    def batch(numbers: list[int], weights: list[float]) -> PositiveBatch:
        rows = torch.tensor([numbers])
        alike, epochs = torch.ones(rows.shape), torch.zeros(1, dtype=torch.int64)
        return PositiveBatch(torch.zeros_like(rows), rows, rows, torch.tensor([weights]), alike, epochs)

    def gradient(numbers: list[int], weights: list[float]) -> torch.Tensor:
        table = items.clone().requires_grad_()
        view = ModelView(Embeddings(users, table), Embeddings(users, table))
        drawn = negatives[:, numbers]
        loss = objective(batch(numbers, weights), Negatives(None, drawn, drawn), view, Denoising("bpr"), 0.0)[0].sum()
        (found,) = torch.autograd.grad(loss * len(numbers), table)
        return found

    torch.testing.assert_close(gradient([0, 1, 2], [1.0, 2.0, 1.0]), gradient([0, 1, 1, 2], [1.0] * 4))


def test_l2_reaches_the_parameters_and_not_what_is_propagated():
    world = toy_world()
    base = Embeddings(torch.ones(40, 1, 2, requires_grad=True), torch.ones(30, 1, 2, requires_grad=True))
    final = Embeddings(torch.zeros(40, 1, 2), torch.zeros(30, 1, 2))
    view, batch = ModelView(base, final), Epochs([world], 8, [0]).next_batch()
    negatives = UniformNegatives().start(world, [0]).sample(batch, view)
    value = objective(batch, negatives, view, Denoising("bpr"), 0.5)[0]
    # Scores of zero vectors are 0: softplus(0) = ln 2; three parameter vectors of squared length 2 in each row.
    assert value.item() == pytest.approx(math.log(2) + 0.5 * 3 * 2 / 2)


def test_what_a_sampler_adds_to_a_row_counts_as_the_row_does():
    """Times its weight, in the mean over live rows; a dead row adds nothing."""
    torch.manual_seed(0)
    embeddings = Embeddings(torch.randn(2, 2, 3), torch.randn(4, 2, 3))
    batch = PositiveBatch(
        users=torch.tensor([[0, 1, 1], [1, 0, 0]]),
        items=torch.tensor([[3, 0, 2], [1, 2, 0]]),
        pair_ids=torch.zeros(2, 3, dtype=torch.int64),
        weights=torch.tensor([[1.0, 2.0, 0.5], [3.0, 0.0, 7.0]]),
        live=torch.tensor([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0]]),
        epochs=torch.zeros(2, dtype=torch.int64),
    )
    added = torch.tensor([[10.0, 20.0, -40.0], [5.0, 100.0, 1000.0]], requires_grad=True)
    drawn, view = torch.tensor([[1, 2, 0], [0, 3, 3]]), ModelView(embeddings, embeddings)
    plain, more = (
        objective(batch, Negatives(drawn, row_losses=losses), view, Denoising("bpr"), 0.01)[0]
        for losses in (None, added)
    )
    by_hand = [(1 * 10 + 2 * 20 - 0.5 * 40) / 3, (3 * 5 + 0 * 100) / 2]
    assert (more - plain).tolist() == pytest.approx(by_hand, rel=1e-5)
    more.sum().backward()
    torch.testing.assert_close(added.grad, torch.tensor([[1 / 3, 2 / 3, 0.5 / 3], [3 / 2, 0, 0]]))
