"""Adam on the GPU against torch's own in float64."""

import pytest
import torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize("shape", [(1, 1, 1), (100, 3, 7), (1000, 1, 64)])
def test_equals_torch(shape):
    from pspns.gpu_kernels.adam import GpuAdam

    generator = torch.Generator().manual_seed(0)
    start = torch.randn(shape, generator=generator)
    table = start.cuda()
    ours = GpuAdam(table, 0.01)
    plain = start.double().requires_grad_()
    torchs = torch.optim.Adam([plain], lr=0.01)
    for step in range(300):
        if step == 150:  # as after a resume
            ours = GpuAdam(table, 0.01, {name: value.clone() for name, value in ours.state().items()})
        gradient = torch.randn(shape, generator=generator) * 10.0 ** -(step % 7)
        of_squares = torch.rand(shape[:2], generator=generator)
        ours.apply(gradient.cuda(), of_squares.cuda())
        plain.grad = gradient.double() + 2 * of_squares.double()[..., None] * plain.detach()
        torchs.step()
        if step in (0, 1, 10):
            torch.testing.assert_close(table.cpu().double(), plain.detach(), rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(table.cpu().double(), plain.detach(), rtol=1e-5, atol=1e-5)
    state = torchs.state[plain]
    assert float(ours.state()["step"]) == 300
    for name in ("exp_avg", "exp_avg_sq"):
        torch.testing.assert_close(ours.state()[name].cpu().double(), state[name], rtol=1e-4, atol=5e-6)
