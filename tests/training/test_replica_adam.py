"""Adam of replicas: each against torch's own, and whoever sits out does not move at all."""

import pytest
import torch

from pspns.training.replica_adam import ReplicaAdam

SHAPES = {"wide": (9, 3, 5), "narrow": (4, 3, 2)}  # [nodes, replicas, size]
RATE = 0.03


def random_tables(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}


def replicas_first(tables):
    return {name: table.movedim(1, 0).contiguous() for name, table in tables.items()}


def who_steps(number):
    """Each of the three has a rhythm of its own; the first never rests."""
    return torch.tensor([True, number % 2 == 0, number % 3 == 1])


def adam_of(axis=1):
    tables = random_tables()
    return ReplicaAdam(tables if axis == 1 else replicas_first(tables), RATE, replica_axis=axis)


def step(adam, number, axis=1, takes_part=None, places=slice(None)):
    gradients = random_tables(100 + number)
    gradients = gradients if axis == 1 else replicas_first(gradients)
    for name, gradient in gradients.items():
        own = gradient[:, places] if axis == 1 else gradient[places]
        adam.step(name, own, who_steps(number)[places] if takes_part is None else takes_part)


@pytest.mark.parametrize("axis", [0, 1])
def test_each_replica_moves_as_by_torchs_adam_on_its_own_steps(axis):
    adam, start = adam_of(axis), random_tables()
    expected = {(name, replica): start[name][:, replica].clone() for name in SHAPES for replica in range(3)}
    torchs = {key: torch.optim.Adam([table], lr=RATE) for key, table in expected.items()}
    for number in range(40):
        step(adam, number, axis)
        for (name, replica), table in expected.items():
            if who_steps(number)[replica]:
                table.grad = random_tables(100 + number)[name][:, replica].clone()
                torchs[name, replica].step()
    for (name, replica), table in expected.items():
        found = adam.tables[name].movedim(axis, 0)[replica]
        torch.testing.assert_close(found, table, rtol=1e-5, atol=1e-6)
        assert (found - start[name][:, replica]).abs().mean() > 0.01


def test_who_sits_out_does_not_move_by_momentum_either():
    adam = adam_of()
    step(adam, 0, takes_part=torch.tensor([True, True, True]))
    before = adam.state()
    step(adam, 1, takes_part=torch.tensor([True, False, True]))
    for name, values in adam.state().items():
        axis = 0 if name.endswith("steps") else 1
        was, now = before[name].movedim(axis, 0), values.movedim(axis, 0)
        assert torch.equal(now[1], was[1])
        assert not torch.equal(now[0], was[0])
        assert not torch.equal(now[2], was[2])


def test_tables_have_steps_of_their_own():
    adam, before = adam_of(), random_tables()
    adam.step("wide", random_tables(1)["wide"], torch.tensor([True, True, True]))
    assert torch.equal(adam.tables["narrow"], before["narrow"])
    assert not torch.equal(adam.tables["wide"], before["wide"])
    assert adam.state()["narrow/steps"].tolist() == [0, 0, 0]


def test_a_first_step_is_the_learning_rate_against_the_sign():
    adam = ReplicaAdam({"table": torch.zeros(1, 3)}, RATE)
    adam.step("table", torch.tensor([[2.0, -1e-3, 0.0]]), torch.tensor([True]))
    torch.testing.assert_close(adam.tables["table"], torch.tensor([[-RATE, RATE, 0.0]]), rtol=1e-4, atol=0)


def test_tables_change_in_place():
    """A recorded step reads the tensors that it was recorded with."""
    adam = adam_of()
    tables = dict(adam.tables)
    step(adam, 0)
    assert all(adam.tables[name] is table for name, table in tables.items())


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("places", [[1], [2, 0]])
def test_those_that_are_kept_go_on_as_if_nobody_had_left(axis, places):
    whole, fewer = adam_of(axis), adam_of(axis)
    for number in range(4):
        step(whole, number, axis), step(fewer, number, axis)
    fewer.keep(torch.tensor(places))
    for number in range(4, 9):
        step(whole, number, axis), step(fewer, number, axis, places=places)
    for name, table in whole.tables.items():
        assert torch.equal(fewer.tables[name].movedim(axis, 0), table.movedim(axis, 0)[places])


def test_goes_on_from_a_state_to_the_same_bits():
    adam, resumed = adam_of(), ReplicaAdam({name: torch.zeros(shape) for name, shape in SHAPES.items()}, RATE, 1)
    for number in range(5):
        step(adam, number)
    state = adam.state()
    resumed.load_state(state)
    written = {name: values.clone() for name, values in state.items()}
    for number in range(5, 9):
        step(adam, number), step(resumed, number)
    assert all(torch.equal(resumed.tables[name], table) for name, table in adam.tables.items())
    # The state was a copy, and so was what was loaded.
    assert all(torch.equal(values, written[name]) for name, values in state.items())
