import numpy as np
import torch
from scipy import stats

from pspns.rng import ReplicaStream, host_stream


def splitmix64(key: int, n: int) -> list[int]:
    """The reference sequence in Python's unbounded integers: n outputs of the generator started at `key`."""
    found, state, mask = [], key % 2**64, 2**64 - 1
    for _ in range(n):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        found.append(z ^ (z >> 31))
    return found


def test_bits_follow_splitmix64():
    stream = ReplicaStream([7], "negatives")
    key = int(stream._keys[0])
    # The first call's key is one finaliser step away from the stream's: what follows is the plain sequence.
    mixed = splitmix64(key - 0x9E3779B97F4A7C15, 1)[0]
    assert [int(b) % 2**64 for b in stream.bits(5)[0]] == splitmix64(mixed, 5)


def test_splitmix64_gives_its_published_first_output():
    # The first output for seed 0, as reference implementations print it.
    assert splitmix64(0, 1)[0] == 0xE220A8397B1DCDAF


def test_a_replica_draws_the_same_alone_and_in_company():
    alone, together = ReplicaStream([3], "shuffle"), ReplicaStream([0, 3, 9], "shuffle")
    for shape in ((4,), (2, 5)):
        assert torch.equal(alone.bits(*shape)[0], together.bits(*shape)[1])
    together.keep(torch.tensor([1]))
    assert torch.equal(alone.order(17), together.order(17))


def test_calls_is_the_whole_state():
    first, second = ReplicaStream([1, 2], "x"), ReplicaStream([1, 2], "x")
    first.bits(10), first.order(3)
    second.calls = first.calls
    assert torch.equal(first.bits(6), second.bits(6))


def test_streams_differ_by_name_seed_and_call():
    drawn = [
        ReplicaStream([0], "a").bits(8),
        ReplicaStream([1], "a").bits(8),
        ReplicaStream([0], "b").bits(8),
    ]
    stream = ReplicaStream([0], "a")
    stream.bits(8)
    drawn.append(stream.bits(8))
    assert len({tuple(d.flatten().tolist()) for d in drawn}) == 4
    assert host_stream(0, "split").random() != host_stream(0, "start").random()
    assert host_stream(5, "split").random() == host_stream(5, "split").random()


def test_integers_are_uniform_below_each_bound():
    below = torch.tensor([[7] * 20_000, [1000] * 20_000])
    drawn = ReplicaStream([0, 1], "n").integers(below, 3)
    assert drawn.shape == (2, 20_000, 3)
    for replica, bound in ((0, 7), (1, 1000)):
        counts = np.bincount(drawn[replica].flatten().numpy(), minlength=bound)
        assert len(counts) == bound
        assert stats.chisquare(counts).pvalue > 1e-4


def test_every_order_is_equally_likely():
    stream = ReplicaStream(range(50), "shuffle")
    orders = torch.cat([stream.order(3) for _ in range(240)])  # 12,000 permutations of three things
    codes = (orders * torch.tensor([9, 3, 1])).sum(-1).numpy()
    _, counts = np.unique(codes, return_counts=True)
    assert len(counts) == 6
    assert stats.chisquare(counts).pvalue > 1e-4


def test_neighbouring_bits_are_independent():
    bits = ReplicaStream([0, 1], "x").bits(20_000).numpy().astype(np.uint64)
    unit = (bits >> np.uint64(11)) / 2.0**53
    assert abs(np.corrcoef(unit[0], unit[1])[0, 1]) < 0.03  # replicas; 4 standard errors are 0.028
    assert abs(np.corrcoef(unit[0, 1:], unit[0, :-1])[0, 1]) < 0.03  # positions
    assert stats.kstest(unit[0], "uniform").pvalue > 1e-4


def test_fractions_are_the_upper_53_bits():
    drawn, bits = ReplicaStream([5, 6], "f").fractions(3, 4), ReplicaStream([5, 6], "f").bits(3, 4)
    assert drawn.shape == (2, 3, 4)
    assert drawn.dtype == torch.float64
    assert drawn.flatten().tolist() == [(b % 2**64 >> 11) / 2**53 for b in bits.flatten().tolist()]


def test_fractions_fill_the_unit_interval_down_to_the_last_bit():
    stream = ReplicaStream([0, 1], "f")
    drawn = stream.fractions(50_000).numpy()
    assert (drawn >= 0).all()
    assert (drawn < 1).all()
    for own in drawn:
        assert stats.kstest(own, "uniform").pvalue > 1e-4
        assert stats.kstest(own * 2**32 % 1, "uniform").pvalue > 1e-4  # constant if only 32 bits were random
        last_bits = (own * 2**53).astype(np.int64) % 32
        assert stats.chisquare(np.bincount(last_bits, minlength=32)).pvalue > 1e-4
    assert not np.array_equal(stream.fractions(50_000).numpy(), drawn)
