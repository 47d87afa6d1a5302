import pytest
import torch

from pspns.components import find_part, part_names


@pytest.mark.parametrize("name", part_names("losses"))
def test_every_loss_wants_positives_up_and_negatives_down(name):
    loss = find_part("losses", name)
    positive = torch.linspace(-60, 60, 25, requires_grad=True)
    negative = torch.linspace(50, -50, 25, requires_grad=True)
    values = loss(positive, negative)
    assert values.shape == (25,)
    assert torch.isfinite(values).all()
    up, down = torch.autograd.grad(values.sum(), (positive, negative))
    assert (up <= 0).all()
    assert (down >= 0).all()
    assert (up[:12] < -0.4).all()
    assert (down[:12] > 0.4).all()
    extreme = loss(torch.tensor([-1e4, 1e4]), torch.tensor([1e4, -1e4]))
    assert extreme.tolist() == [pytest.approx(2e4 if name == "bpr" else 1e4), 0.0]
