"""Every algorithm of every collective is proved, and its properties and counts are what is promised."""

from fractions import Fraction

import pytest
from expressions import evaluate, leaves

from mpicoll.schedule import COLLECTIVES, REDUCING, algorithms, find, verify
from mpicoll.schedule.cost import Counts

ALL = [(collective, name) for collective in COLLECTIVES for name in algorithms(collective)]
SIZES = range(1, 34)
SOME = [1, 2, 3, 4, 5, 6, 7, 8, 12, 17]


def roots(collective: str, size: int) -> list[int]:
    return sorted({0, size // 2, size - 1}) if collective in ("reduce", "bcast") else [0]


def logarithm(size: int) -> tuple[int, int]:
    """Floor of log2, and how many ranks are beyond that power of two."""
    floor = size.bit_length() - 1
    return floor, size - (1 << floor)


@pytest.mark.parametrize(("collective", "name"), ALL)
def test_complete_identical_and_in_order_where_promised(collective, name):
    entry = find(collective, name)
    in_order_all_the_same = True
    for size in SIZES:
        for root in roots(collective, size):
            report = verify(entry.schedule(size, root))
            assert report.ok, report
            assert report.identical or not entry.identical, report
            if entry.keeps_order(size):
                forwarded = entry.schedule(size, root, in_order=True)
                ordered = verify(forwarded) if collective == "reduce" and root else report
                assert ordered.ok, ordered
                assert ordered.in_order, ordered
                assert forwarded.root == root
            else:
                in_order_all_the_same &= report.in_order
    # On one node the algorithms of several levels are other algorithms: their own test has nodes.
    if collective in REDUCING and entry.kind != "levels" and not all(entry.keeps_order(size) for size in SIZES):
        assert not in_order_all_the_same, "it keeps rank order: say so, and let it run such operations"


@pytest.mark.parametrize("name", [name for name, entry in algorithms("allreduce").items() if entry.kind == "levels"])
def test_any_placement_on_nodes(name):
    entry = find("allreduce", name)
    for size in (1, 2, 3, 4, 5, 6, 8, 9, 12, 16):
        blocks, in_turn = [tuple(r * n // size for r in range(size)) for n in (1, 2, 3)], (0, 1, 0, 2, 0, 1)
        for nodes in (*blocks, tuple(range(size)), tuple(in_turn[r % 6] for r in range(size))):
            try:
                schedule = entry.schedule(size, nodes=nodes)
            except ValueError as error:
                assert name in str(error)  # noqa: PT017 - some algorithms need as many ranks on each node, and say so
                continue
            report = verify(schedule)
            assert report.ok, (nodes, report)
            assert report.identical, (nodes, report)
            assert report.in_order or not entry.keeps_order(size, nodes), (nodes, report)


def test_which_keep_order():
    # The promise itself: a pattern that loses its order silently drops out of the test above.
    ordered = {c: [n for n, entry in algorithms(c).items() if entry.keeps_order(5)] for c in COLLECTIVES}
    assert set(ordered["allreduce"]) >= {
        *("binomial_tree", "direct", "linear", "one_shot", "rabenseifner", "recursive_doubling"),
    }
    assert "ring" not in ordered["allreduce"]
    assert set(ordered["reduce"]) >= {"binomial_tree", "linear"}
    assert "direct" in ordered["reduce_scatter"]
    assert "recursive_halving" not in ordered["reduce_scatter"]
    assert find("reduce_scatter", "recursive_halving").keeps_order(8)


@pytest.mark.parametrize(
    "name", ["recursive_doubling", "rabenseifner", "binomial_tree", "linear", "direct", "one_shot"]
)
def test_one_tree_for_all_chunks(name):
    assert all(verify(find("allreduce", name).schedule(size)).same_tree for size in SIZES)


def test_the_ring_has_a_tree_a_chunk():
    assert not any(verify(find("allreduce", "ring").schedule(size)).same_tree for size in SIZES if size > 2)


@pytest.mark.parametrize(("collective", "name"), ALL)
def test_a_second_reading_agrees(collective, name):
    for size in SOME:
        for root in roots(collective, size):
            schedule = find(collective, name).schedule(size, root)
            report, state = verify(schedule), evaluate(schedule)
            results = [
                {state[rank][c] for rank in range(size) if c in schedule.outputs(rank)} for c in range(schedule.chunks)
            ]
            assert report.identical == all(len(found) == 1 for found in results)
            assert report.identical or not find(collective, name).identical
            trees = {tree for found in results for tree in found}
            if collective in ("bcast", "allgather"):
                assert [found.pop() for found in results] == list(range(schedule.chunks))
                continue
            assert all(sorted(leaves(tree)) == list(range(size)) for tree in trees)
            assert report.in_order == all(leaves(tree) == list(range(size)) for tree in trees)
            assert report.same_tree == (len(trees) == 1)


def test_census_is_complete_and_not_identical():
    for size in SIZES:
        report = verify(find("allreduce", "census").schedule(size))
        assert report.ok, report
        assert report.identical == (size == 1)
        assert report.counts.rounds == (size - 1).bit_length()
        assert report.counts.sent == (size - 1).bit_length()
        bits = bin(size - 1)[2:] if size > 1 else ""
        # Both slots fold what comes; the first message finds one of them empty.
        assert report.counts.reduced == max(0, 2 * len(bits) - 1)


def tree(name: str, size: int) -> object:
    return evaluate(find("allreduce", name).schedule(size))[0][0]


def test_rabenseifner_has_the_tree_of_recursive_doubling():
    for size in SIZES:
        assert tree("rabenseifner", size) == tree("recursive_doubling", size), size


def test_the_comparison_tells_trees_apart():
    # ALGORITHMS.md 1.0: the binomial tree is another one at exactly these sizes.
    same = {1, 2, 3, 4, 6, 7, 8, 12, 14, 15, 16}
    for size in range(1, 18):
        assert (tree("binomial_tree", size) == tree("recursive_doubling", size)) == (size in same), size
    assert tree("linear", 4) == (((0, 1), 2), 3) == tree("one_shot", 4) == tree("direct", 4)


# rounds, messages of the busiest rank and in all, vectors sent by the busiest rank and reduced by it, reductions in
# all: ALGORITHMS.md 1.0, with side by side what a round holds there.
def linear(p, n, x):
    return 2 * (p - 1), p - 1, 2 * (p - 1), p - 1, p - 1, p - 1


def direct(p, n, x):
    return 2, 2 * (p - 1), 2 * p * (p - 1), Fraction(2 * (p - 1), p), Fraction(p - 1, p), p - 1


def one_shot(p, n, x):
    return 1, p - 1, p * (p - 1), p - 1, p - 1, p * (p - 1)


def ring(p, n, x):
    return 2 * (p - 1), 2 * (p - 1), 2 * p * (p - 1), Fraction(2 * (p - 1), p), Fraction(p - 1, p), p - 1


def recursive_doubling(p, n, x):
    fold, inner = bool(x), p - x
    return n + 2 * fold, n + fold, inner * n + 2 * x, n + fold, n + fold, inner * n + x


def rabenseifner(p, n, x):
    fold, inner = bool(x), p - x
    sent = Fraction(2 * (inner - 1), inner) + fold
    return 2 * n + 2 * fold, 2 * n + fold, 2 * inner * n + 2 * x, sent, Fraction(inner - 1, inner) + fold, p - 1


def binomial_tree(p, n, x):
    depth = n + bool(x)
    return 2 * depth, depth, 2 * (p - 1), depth, depth, p - 1


CLOSED_FORMS = [linear, direct, one_shot, ring, recursive_doubling, rabenseifner, binomial_tree]


@pytest.mark.parametrize("form", CLOSED_FORMS, ids=lambda form: form.__name__)
def test_counts_are_the_closed_forms(form):
    for size in SIZES[1:]:
        counts = verify(find("allreduce", form.__name__).schedule(size)).counts
        assert isinstance(counts, Counts)
        found = (counts.rounds, counts.messages, counts.messages_total, counts.sent, counts.reduced)
        assert (*found, counts.reduced_total) == form(size, *logarithm(size)), size
        assert counts.below_bounds() == []


def test_counts_of_the_halves():
    for size in SIZES[1:]:
        share = Fraction(size - 1, size)
        for name in ("ring", "direct"):
            for collective in ("allgather", "reduce_scatter"):
                counts = verify(find(collective, name).schedule(size)).counts
                reduced = share if collective == "reduce_scatter" else 0
                assert (counts.sent, counts.sent_total, counts.reduced) == (share, size - 1, reduced)
        for name in ("binomial_tree", "linear"):
            for collective in ("bcast", "reduce"):
                counts = verify(find(collective, name).schedule(size)).counts
                assert (counts.messages_total, counts.sent_total) == (size - 1, size - 1)


def test_a_report_says_what_held():
    assert str(verify(find("allreduce", "ring").schedule(3))) == "allreduce ring on 3 ranks: complete, identical"
    text = str(verify(find("allreduce", "linear").schedule(3)))
    assert text == "allreduce linear on 3 ranks: complete, identical, in order, same tree"
