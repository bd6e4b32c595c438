"""The family as a whole: how many there are, how long their files, their counts, compositions and large sizes."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

import mpicoll.algorithms
from mpicoll.schedule import REDUCING, algorithms, find, verify

NAMES = list(algorithms("allreduce"))
FILES = sorted(Path(mpicoll.algorithms.__file__).parent.glob("[!_]*.py"))
LARGE = [64, 100, 128, 255, 256]


def spelled(name: str, size: int, nodes: tuple[int, ...]) -> str:
    """A schedule as text: who sends and receives which chunks when."""
    programs = find("allreduce", name).schedule(size, nodes=nodes).programs()
    rounds = [step for step in zip(*programs) if any(any(one) for one in step)]
    return repr([[[(m.peer, list(m.chunks)) for m in (*one.sends, *one.recvs)] for one in step] for step in rounds])


@pytest.mark.parametrize("size", [8, 12])
def test_twenty_different_allreduces(size):
    nodes = tuple(rank // 2 for rank in range(size))
    different = {spelled(name, size, nodes): name for name in NAMES}
    assert len(different) >= 20, sorted(different.values())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_pattern_is_read_on_one_screen(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) < 80


def test_most_patterns_are_under_forty_lines():
    short = [path for path in FILES if len(path.read_text(encoding="utf-8").splitlines()) < 40]
    assert len(short) > len(FILES) * 3 / 4


def quick(name: str) -> bool:
    """Whether a rank's rounds and messages grow slower than the ranks: else each proof at 256 ranks takes seconds."""
    program = find("allreduce", name).schedule(64, nodes=tuple(rank // 4 for rank in range(64))).program(0)
    return max(len(program), sum(len(one.sends) for one in program)) < 60


# Rings, chains and what goes from each to each are proved at 255, and no power of two is a case of its own for them.
@pytest.mark.parametrize(("name", "size"), [(n, size) for n in NAMES for size in LARGE if size < 256 or quick(n)])
def test_large_sizes_are_proved(name, size):
    report = verify(find("allreduce", name).schedule(size, nodes=tuple(rank // 4 for rank in range(size))))
    assert report.ok, report
    assert report.identical == find("allreduce", name).identical


@pytest.mark.parametrize("size", [3, 5, 6, 7, 12])
def test_circulant_has_the_fewest_rounds_and_half_the_bytes_of_what_folds(size):
    own, folded = (verify(find("allreduce", name).schedule(size)).counts for name in ("circulant", "rabenseifner"))
    assert own is not None
    assert folded is not None
    assert own.rounds == 2 * (size - 1).bit_length() == folded.rounds
    assert own.sent == Fraction(2 * (size - 1), size)
    # ALGORITHMS.md 1.0: 2(p'-1)/p' + 2 on the critical path of the fold, where one rank sends, another hands back
    inner = 1 << (size.bit_length() - 1)
    assert folded.sent + 1 == Fraction(2 * (inner - 1), inner) + 2
    assert own.sent <= (folded.sent + 1) * Fraction(57, 100)


def log_k(size: int, k: int) -> int:
    rounds, reach = 0, 1
    while reach < size:
        rounds, reach = rounds + 1, reach * k
    return rounds


# Rounds, messages of the busiest rank, vectors it sends, vectors it reduces: ALGORITHMS.md 1.0.
FORMS = {
    "allgather_reduce": lambda p: (log_k(p, 2), log_k(p, 2), p - 1, p - 1),
    "census": lambda p: (log_k(p, 2), log_k(p, 2), log_k(p, 2), 2 * log_k(p, 2) - 1),
    "circulant": lambda p: (2 * log_k(p, 2), 2 * log_k(p, 2), Fraction(2 * (p - 1), p), Fraction(p - 1, p)),
    "bruck": lambda p: (2 * log_k(p, 2), 2 * log_k(p, 2), Fraction(2 * (p - 1), p), Fraction(p - 1, p)),
    "pat": lambda p: (2 * log_k(p, 2), 2 * log_k(p, 2), Fraction(2 * (p - 1), p), Fraction(p - 1, p)),
    "chain": lambda p: (2 * (p - 1), 2 if p > 2 else 1, min(2, p - 1), 1),
    "bidirectional_ring": lambda p: (2 * (p // 2), 2 * (p - 1), Fraction(2 * (p - 1), p), Fraction(p - 1, p)),
}


@pytest.mark.parametrize("name", FORMS)
def test_counts_are_the_closed_forms_at_any_size(name):
    for size in range(2, 34):
        counts = verify(find("allreduce", name).schedule(size)).counts
        assert counts is not None
        assert (counts.rounds, counts.messages, counts.sent, counts.reduced) == FORMS[name](size), size


def test_counts_where_the_size_suits():
    for size in range(2, 34, 2):
        share = (Fraction(2 * (size - 1), size), Fraction(size - 1, size))
        counts = verify(find("allreduce", "neighbor_exchange").schedule(size)).counts
        assert (counts.rounds, counts.messages, counts.sent, counts.reduced) == (size, size, *share), size
        counts = verify(find("allreduce", "swing").schedule(size)).counts
        rounds = 2 * log_k(size, 2)
        assert (counts.rounds, counts.messages, counts.sent, counts.reduced) == (rounds, rounds, *share), size
    for factors in ((2, 3), (3, 2), (4, 3), (3, 3), (2, 2, 3), (5,)):
        text, size = "x".join(map(str, factors)), 1
        for k in factors:
            size *= k
        each = sum(k - 1 for k in factors)
        counts = verify(find("allreduce", f"recursive_multiplying:{text}").schedule(size)).counts
        assert (counts.rounds, counts.messages, counts.sent, counts.reduced) == (len(factors), each, each, each)
        counts = verify(find("allreduce", f"radix_k:{text}").schedule(size)).counts
        share = Fraction(size - 1, size)
        assert (counts.rounds, counts.messages) == (2 * len(factors), 2 * each)
        assert (counts.sent, counts.reduced) == (2 * share, share)
    for k in (2, 3, 4, 8):
        for depth in (1, 2, 3):
            counts = verify(find("allreduce", f"knomial_tree:{k}").schedule(k**depth)).counts
            each = (k - 1) * depth
            assert (counts.rounds, counts.messages, counts.sent, counts.reduced) == (2 * depth, each, each, each)


@pytest.mark.parametrize("size", [4, 6, 8, 13, 32])
@pytest.mark.parametrize("segments", [1, 2, 5])
def test_counts_of_pipelines(size, segments):
    slots = segments - 1
    chain = verify(find("allreduce", f"chain@{segments}").schedule(size)).counts
    assert (chain.rounds, chain.messages, chain.sent) == (2 * (size - 1) + slots, 2 * segments, 2)
    double = verify(find("allreduce", f"double_tree@{segments}").schedule(size)).counts
    assert double.rounds == 2 * log_k(size, 2) + slots
    assert double.messages_total == 4 * (size - 1) * segments
    assert double.sent <= 2
    assert verify(find("allreduce", f"dual_root@{segments}").schedule(size)).counts.sent <= 3


@pytest.mark.parametrize(("per_node", "nodes"), [(2, 2), (2, 4), (4, 3), (8, 8)])
def test_counts_of_two_levels(per_node, nodes):
    size = per_node * nodes
    place = tuple(rank // per_node for rank in range(size))
    counts = verify(find("allreduce", "torus:ring+ring").schedule(size, nodes=place)).counts
    assert counts.rounds == 2 * (per_node - 1) + 2 * (nodes - 1)
    assert (counts.sent, counts.reduced) == (Fraction(2 * (size - 1), size), Fraction(size - 1, size))
    leaders = verify(find("allreduce", "hierarchical:binomial_tree+ring").schedule(size, nodes=place)).counts
    assert leaders.rounds == 2 * log_k(per_node, 2) + 2 * (nodes - 1)


COMPOSED = [
    *("torus:direct+ring", "torus:recursive_halving+circulant", "torus:ring+binomial_tree", "torus:pat+one_shot@3"),
    *("hierarchical:chain+ring", "hierarchical:linear+swing", "hierarchical:knomial_tree+direct@4"),
    *("hierarchical:binary_tree+double_tree", "torus:neighbor_exchange+dual_root@2"),
    *("ring@3", "chain@4", "binary_tree@3", "double_tree@5", "dual_root@4", "rabenseifner@2", "recursive_doubling@3"),
]


@pytest.mark.parametrize("name", COMPOSED)
def test_compositions_on_any_nodes(name):
    entry = find("allreduce", name)
    for size in (1, 2, 3, 5, 8, 12):
        uneven = tuple(0 if rank < size * 3 // 8 else 1 for rank in range(size))
        mixed = tuple((0, 1, 0, 2)[rank % 4] for rank in range(size))
        for nodes in ((0,) * size, tuple(rank // 2 for rank in range(size)), uneven, mixed, tuple(range(size))):
            report = verify(entry.schedule(size, nodes=nodes))
            assert report.ok, (nodes, report)
            assert report.identical, (nodes, report)
            assert report.in_order == entry.keeps_order(size, nodes) or not entry.ordered


def test_order_on_two_levels_depends_on_where_ranks_are():
    leaders = find("allreduce", "hierarchical:binomial_tree+recursive_doubling")
    assert leaders.keeps_order(8, (0, 0, 0, 1, 1, 1, 1, 1))
    assert not leaders.keeps_order(8, (0, 1, 0, 1, 0, 1, 0, 1))
    assert not find("allreduce", "hierarchical:binomial_tree+ring").keeps_order(8, (0, 0, 1, 1, 2, 2, 3, 3))
    assert find("allreduce", "dual_root").keeps_order(9, (1, 0) * 4 + (0,))


def test_what_restricts_is_what_holds():
    for collective in REDUCING:
        for name, entry in algorithms(collective).items():
            if entry.kind != "levels":
                assert ("commuting operations" in entry.restrictions) == (not entry.keeps_order(8)), name
            folds = any("fold" in text for text in entry.restrictions)
            assert folds == (not all(map(entry.fits, range(1, 34)))), name


@pytest.mark.parametrize(
    ("name", "size", "nodes", "said"),
    [
        ("torus:direct+radix_k:2x2", 6, (0, 0, 1, 1, 2, 2), "make 4, and there are 3"),
        ("radix_k:2x3", 8, None, "make 6, and there are 8"),
        ("census@2", 4, None, "keeps parts in scratch"),
        ("torus:direct+census", 4, (0, 0, 1, 1), "keeps parts in scratch"),
        ("torus:rung+ring", 4, (0, 0, 1, 1), "rung"),
        ("hierarchical:ring+ring", 4, (0, 0, 1, 1), "bcast has no algorithm 'ring'"),
        ("torus:direct+ring", 4, (0, 0, 1), "nodes of 3 ranks are given, and there are 4"),
    ],
)
def test_one_line_names_what_does_not_fit(name, size, nodes, said):
    with pytest.raises(ValueError, match=said) as caught:
        find("allreduce", name).schedule(size, nodes=nodes)
    assert name.partition("+")[0].partition(":")[0] in str(caught.value)
    assert "\n" not in str(caught.value)
