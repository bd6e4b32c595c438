"""Prices: the closed forms where there are some, two levels, forecasts and numbers of segments, large sizes."""

from __future__ import annotations

import pytest

from mpicoll.schedule import Network, algorithms, find, forecast, price

NET = Network(alpha=2e-6, beta=1e-9, gamma=3e-10, per_round=1e-7)
N = 1e6


def seconds(name: str, size: int, network: Network = NET, nbytes: float = N, nodes=None) -> float:
    return price(find("allreduce", name).schedule(size, nodes=nodes), network, nbytes, nodes).seconds


@pytest.mark.parametrize("size", [2, 3, 4, 7, 8, 12, 16])
def test_the_textbook_forms(size):
    alpha, beta, gamma, step = NET.alpha, NET.beta, NET.gamma, NET.per_round
    share = (size - 1) / size
    depth = (size - 1).bit_length()
    forms = {
        "ring": 2 * (size - 1) * (alpha + N / size * beta + step) + share * N * gamma,
        "circulant": 2 * depth * (alpha + step) + 2 * share * N * beta + share * N * gamma,
        "direct": 2 * (size - 1) * (alpha + N / size * beta) + share * N * gamma + 2 * step,
        "one_shot": (size - 1) * (alpha + N * beta + N * gamma) + step,
        "linear": 2 * (size - 1) * (alpha + N * beta + step) + (size - 1) * N * gamma,
        "binomial_tree": 2 * depth * (alpha + N * beta + step) + depth * N * gamma,
        "chain": 2 * (size - 1) * (alpha + N * beta + step) + (size - 1) * N * gamma,
    }
    if size & (size - 1) == 0:
        forms["recursive_doubling"] = depth * (alpha + N * beta + N * gamma + step)
        forms["rabenseifner"] = forms["halving_doubling"] = forms["circulant"]
    for name, form in forms.items():
        assert seconds(name, size) == pytest.approx(form), name


def test_ports():
    side_by_side = Network(NET.alpha, NET.beta, ports=None)
    assert seconds("direct", 8, side_by_side) == pytest.approx(2 * (NET.alpha + N / 8 * NET.beta))
    one = Network(NET.alpha, NET.beta, ports=1)
    assert seconds("direct", 8, one) == pytest.approx(14 * (NET.alpha + N / 8 * NET.beta))
    with pytest.raises(ValueError, match="ports 3"):
        seconds("direct", 8, Network(NET.alpha, NET.beta, ports=3))


def test_chains_in_segments():
    # ALGORITHMS.md 1.8: 2(p-2+m) slots when reduce and bcast follow each other; here they overlap: 2(p-1) + m-1 slots.
    for segments in (1, 2, 8):
        slots = 2 * 7 + segments - 1
        # In a slot a rank in the middle receives up to two messages one after the other: the way up and the way down.
        each = NET.alpha + N / segments * NET.beta
        found = seconds(f"chain@{segments}", 8, Network(NET.alpha, NET.beta))
        assert slots * each - 1e-12 <= found <= 2 * slots * each


def test_levels_go_side_by_side():
    nodes = (0, 0, 1, 1, 2, 2, 3, 3)
    level = Network(NET.alpha, NET.beta, inner=(NET.alpha, NET.beta))
    flat = Network(NET.alpha, NET.beta)
    whole, halves = (seconds(f"torus:direct+ring@{m}", 8, level, nodes=nodes) for m in (1, 4))
    assert halves < 0.85 * whole  # while one segment crosses, another is inside
    assert seconds("torus:direct+ring", 8, flat, nodes=nodes) == pytest.approx(whole)
    assert seconds("torus:direct+ring@4", 8, flat, nodes=nodes) > whole


@pytest.mark.parametrize("name", list(algorithms("allreduce")))
def test_terms_add_up(name):
    nodes = (0, 0, 0, 1, 1, 1)
    levels = Network(2e-6, 1e-9, 3e-10, 1e-7, inner=(1e-6, 1e-10))
    for network, level in ((levels, nodes), (NET, None)):
        found = price(find("allreduce", name).schedule(6, nodes=nodes), network, N, level)
        assert sum(found.terms(network).values()) == pytest.approx(found.seconds)


@pytest.mark.parametrize("name", list(algorithms("allreduce")))
@pytest.mark.parametrize("size", [2, 5, 8, 13, 70])
def test_a_forecast_is_the_price_at_both_ends_and_near_it_between(name, size):
    nodes = tuple(rank // 2 for rank in range(size))
    for network in (NET, Network(2e-6, 1e-9, 3e-10, 1e-7, inner=(1e-6, 1e-10))):
        look = forecast(find("allreduce", name), size, nodes, network)
        for nbytes in (1, 1 << 30):
            assert look.seconds(nbytes) == pytest.approx(seconds(name, size, network, nbytes, nodes), rel=1e-6)
        for nbytes in (1000, 30_000, N):
            exact = seconds(name, size, network, nbytes, nodes)
            assert exact * 0.9 <= look.seconds(nbytes) <= exact * 1.0001


@pytest.mark.parametrize("name", ["chain", "binary_tree", "double_tree", "dual_root", "torus", "hierarchical", "ring"])
@pytest.mark.parametrize("size", [4, 8, 13])
def test_the_number_of_segments_is_near_the_best(name, size):
    nodes = tuple(rank // 2 for rank in range(size))
    network = Network(2e-6, 1e-9, 3e-10, 1e-7, inner=(1e-6, 2e-10))
    entry = find("allreduce", name)
    for nbytes in (1e3, 1e5, 1e7):
        chosen = forecast(entry, size, nodes, network).segments(nbytes)
        exact = {s: seconds(f"{name}@{s}", size, network, nbytes, nodes) for s in (1, 2, 4, 8, 16, 32, 64)}
        chosen_exact = seconds(f"{name}@{chosen}", size, network, nbytes, nodes)
        assert chosen_exact <= 1.2 * min(exact.values()), (chosen, exact)
    assert forecast(entry, size, nodes, network).segments(1e7, segment_bytes=1 << 20) == 10


def test_segments_of_a_given_length_have_a_limit():
    look = forecast(find("allreduce", "chain"), 4, (0,) * 4, NET)
    assert look.segments(1e9, segment_bytes=1) == 1024
    assert look.segments(0) == 1
    assert look.segments(0, segment_bytes=8) == 1


@pytest.mark.parametrize(("name", "size"), [("torus", 1024), ("dual_root", 1024), ("recursive_doubling", 65536)])
def test_large_sizes_have_a_price(name, size):
    nodes = tuple(rank // 8 for rank in range(size))
    network = Network(2e-6, 1e-9, inner=(1e-6, 1e-10))
    schedule = find("allreduce", name).schedule(size, nodes=nodes)
    exact = price(schedule, network, N, nodes)
    assert exact.seconds == pytest.approx(forecast(find("allreduce", name), size, nodes, network).seconds(N), rel=0.1)


def test_a_message_too_many_on_one_rank_is_not_everyones():
    # All shapes are alike here, but rank 1 gets two messages one after the other, and the others fewer.
    from mpicoll.schedule import Recv, Round, Schedule, Send

    to = {0: 1, 1: 0, 2: 1, 3: 1}
    back = {1: [0, 2, 3], 0: [1]}

    def rounds(rank):
        yield Round([Send(to[rank], [0])], [Recv(peer, [0], reduce=True) for peer in back.get(rank, [])])

    lopsided = Schedule("allreduce", "lopsided", 4, 1, rounds)
    assert price(lopsided, NET, N).seconds >= 3 * (NET.alpha + N * NET.beta)


def test_as_many_messages_for_all_are_not_alike_where_two_meet_at_one_rank():
    from mpicoll.schedule import Recv, Round, Schedule, Send

    def rounds(rank):  # each has two neighbours, and in the first turn ranks 0 and 2 both send to rank 1
        peers = ([1, 3], [0, 2])[rank % 2]
        yield Round([Send(peer, [0]) for peer in peers], [Recv(peer, [0], reduce=True) for peer in peers])

    crossed = Schedule("allreduce", "crossed", 4, 1, rounds)
    assert price(crossed, NET, N).seconds >= 3 * (NET.alpha + N * NET.beta)
