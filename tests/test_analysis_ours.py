"""Our own run files: cut at any byte, joined, several launches, and back again whatever is in them."""

import json
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pandas")

import pandas as pd

from analysis.__main__ import main
from analysis.cells import one_kind
from analysis.load import load, load_file
from analysis.readers.ours_fast import read_block
from analysis.samples import Asked, RefusedError

RUN = {"record": "run", "schema": 1, "size": 2}
ANY = RUN | {"size": None}  # does not say how many ranks
END = {"record": "end", "complete": True}


def sample(nbytes=8, times=(3.0, 1.0, 2.5), **other):
    record = {"record": "sample", "collective": "allreduce", "library": "mpicoll", "algorithm": "ring", "size": 2}
    record |= {"nodes": 1, "dtype": "float32", "op": "sum", "count": nbytes // 4, "nbytes": nbytes, "in_place": True}
    record |= {"segment_bytes": None, "call": "plan", "sync": "barrier", "launch": None, "times_us": list(times)}
    return (
        record
        | {"low_us": 1.0, "high_us": 3.0, "wrong": 0, "skipped": None, "asked": "ring"}
        | {"device": "cpu", "transport": "direct"}
        | other
    )


def lines(*records):
    return "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records)


def found(tmp_path, text, **asked):
    file = tmp_path / "a.jsonl"
    file.write_text(text)
    return load_file(str(file), Asked(**asked))


def cells(one):
    return [(row.launch, row.nbytes, row.time_us) for row in one.rows]


def test_what_is_taken_and_left(tmp_path):
    bad = [sample(wrong=1), sample(skipped="too large", times=()), sample(0), sample(size=1)]
    one = found(tmp_path, lines(ANY, sample(), {"record": "calibration"}, *bad, sample(16, (4, 2)), END))
    assert cells(one) == [(0, 8, 2.5), (0, 16, 3.0)]
    assert {reason.split(":")[0]: where for reason, where in one.left.items()} == {
        "a calibration without size, kind or times": [3],
        "failed its check": [4],
        "skipped by the bench": [5],
        "0 bytes": [6],
        "one rank alone (p = 1)": [7],
    }
    row = one.rows[0]
    assert (row.low_us, row.high_us, row.n_samples, row.call, row.line) == (1.0, 3.0, 3, "plan", 2)


def test_two_transports_are_not_mixed(tmp_path):
    staged, direct = sample(device="cuda", transport="staged"), sample(times=(7, 7), device="cuda", transport="direct")
    one = found(tmp_path, lines(RUN, direct, staged, END))
    assert cells(one) == [(0, 8, 7.0)]
    assert one.left == {"staged, in a file that has direct rows too": [3]}
    alone = found(tmp_path, lines(RUN, staged, END))
    assert cells(alone) == [(0, 8, 2.5)]
    devices = [one.rows[0].device, alone.rows[0].device, found(tmp_path, lines(RUN, sample(), END)).rows[0].device]
    assert devices == ["cuda", "cuda staged", "cpu"]
    for kinds in (devices[:2], devices[1:]):  # each a file of its own: never launches of one cell
        with pytest.raises(ValueError, match="give one kind at a time"):
            one_kind(pd.DataFrame({"library": "mpicoll", "device": kinds}))


def test_cut_at_every_byte(tmp_path):
    text = lines(RUN, sample(), sample(16, (12.25, 11.5, 13.75)), END)
    whole = cells(found(tmp_path, text))
    for end in range(len(text) + 1):
        try:
            one = found(tmp_path, text[:end])
        except RefusedError:
            assert not any(line.endswith("}") and "sample" in line for line in text[:end].split("\n"))
            continue
        assert cells(one) == whole[: len(one.rows)]
        assert len(one.rows) == sum("sample" in line and line.endswith("}") for line in text[:end].split("\n"))


def test_a_cut_file_with_another_behind_it(tmp_path):
    first, second = lines(RUN, sample()), lines(RUN, sample(16), END)
    for end in range(1, len(first) + 1):
        try:
            one = found(tmp_path, first[:end] + second)
        except RefusedError:
            assert end < len('{"record":"run"')
            continue
        assert cells(one)[-1][1:] == (16, 2.5)
        assert len(one.rows) == 1 + (first[:end].rstrip() == first.rstrip())


def test_several_launches_are_numbered_through(tmp_path):
    names = [str(tmp_path / name) for name in ("one", "two")]
    (tmp_path / "one").write_text(lines(RUN, sample(), END, RUN, sample(), END))
    (tmp_path / "two").write_text(lines(RUN, sample(), END))
    table = load(names)
    assert table["launch"].tolist() == [0, 1, 2]
    assert table["file"].tolist() == [names[0], names[0], names[1]]


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        (lines(RUN, sample())[:-5] + "\n" + lines(sample()), 2, "damaged"),
        (lines(RUN) + '{"rec\n' + lines(sample()), 2, "damaged"),
        (lines(RUN | {"schema": 2}, sample()), 1, "schema 2"),
        (lines(RUN, sample(times=(1.0, float("nan")))), 2, "no time"),
        (lines(RUN, sample(times=(1.0, -2.0))), 2, "no time"),
        (lines(RUN, sample(times=("fast",))), 2, "no time"),
        (lines(RUN, sample(times=(True, 2.0))), 2, "no time"),
        (lines(RUN, sample(nbytes=8, size="2")), 2, "whole number"),
        (lines(RUN, {"record": "sample"}), 2, "times_us"),
        (lines(RUN, [1]), 2, "no record"),
        (lines(RUN, END), None, "no row"),
        (lines(RUN, sample(size=3)), 2, "--size 2"),
        (lines(RUN | {"size": 4}, sample()), 2, "2 ranks, but the run that it is of has 4"),
        (lines(RUN, sample(), sample(16, nodes=3)), 3, "2 ranks on 3 nodes"),
        (lines(RUN, sample(nodes=0)), 2, "2 ranks on 0 nodes"),
    ],
)
def test_refusals(tmp_path, text, line, word):
    with pytest.raises(RefusedError) as error:
        found(tmp_path, text, size=2)
    assert (error.value.line, word in error.value.reason) == (line, True), str(error.value)


def test_calibrations_and_the_place_of_ranks(tmp_path):
    ranks = [{"rank": i, "node": i % 2, "cores": [0, 1]} for i in range(4)]
    level = {"record": "calibration", "kind": "exchange", "level": "across", "nbytes": 8, "times_us": [3.0, 1.0, 2.0]}
    one = found(tmp_path, lines(RUN | {"size": 4, "ranks": ranks}, level, sample(size=4), END))
    assert one.rows[0].placement == "0,1,0,1"
    assert one.rows[0].crowded is False
    row = one.calibrations[0]
    assert (row.collective, row.algorithm, row.nbytes, row.time_us, row.size) == (
        "calibration", "exchange across", 8, 2.0, 4,
    )  # fmt: skip
    in_blocks = [rank | {"node": rank["rank"] // 2, "cores": [0]} for rank in ranks]
    one = found(tmp_path, lines(RUN | {"size": 4, "ranks": in_blocks}, sample(size=4), END))
    assert (one.rows[0].placement, one.rows[0].crowded) == (None, True)


def test_a_table_that_was_written_is_read_back(tmp_path):
    """What a fit goes by is in the CSV too: where ranks are, whether they share cores, under which MPI they ran."""
    ranks = [{"rank": i, "node": i % 2, "cores": [0]} for i in range(4)]
    run = RUN | {"size": 4, "ranks": ranks, "mpi_library": "MPICH 5.0.2"}
    (tmp_path / "a").write_text(lines(run, sample(size=4), END))
    assert main(["load", str(tmp_path / "a"), "--to", "csv", str(tmp_path / "b.csv")]) == 0
    one, two = load([str(tmp_path / "a")]), load([str(tmp_path / "b.csv")])
    names = [name for name in one if name not in ("file", "kind", "line")]
    assert two[names].iloc[0].to_dict() == one[names].iloc[0].to_dict()
    assert one.loc[0, ["placement", "crowded", "mpi_library"]].tolist() == ["0,1,0,1", True, "MPICH 5.0.2"]


ODD = [
    {"wrong": 1}, {"nbytes": 0}, {"size": 1}, {"times_us": [0.0]}, {"times_us": []}, {"skipped": "too large"},
    {"low_us": None}, {"nodes": None}, {"dtype": None}, {"transport": "staged"}, {"algorithm": "r\u00efng \ud800"}, {},
    {"times_us": list(range(1, 31)), "low_us": None, "high_us": None},
]  # fmt: skip


@pytest.mark.parametrize("odd", [*(lines(sample() | odd) for odd in ODD), lines(sample())[:-1]])
@pytest.mark.parametrize("block", [1 << 10, 1 << 20])
def test_blocks_give_what_single_records_give(tmp_path, monkeypatch, odd, block):
    monkeypatch.setattr("analysis.readers.ours._BLOCK", block)
    monkeypatch.setattr("analysis.readers.ours._FEW", 2)
    around = [lines(*(sample(8 << i, transport="direct") for i in range(20))) for _ in range(2)]
    text = lines(ANY) + around[0] + odd + around[1] + lines(END, ANY) + around[0]
    blocks = []

    def watched(*block):
        blocks.append(read_block(*block))
        return blocks[-1]

    monkeypatch.setattr("analysis.readers.ours.read_block", watched)
    fast = found(tmp_path, text)
    assert sum(len(columns["line"]) for columns in blocks if columns) >= 57
    monkeypatch.setattr("analysis.readers.ours.read_block", lambda *_: None)
    slow = found(tmp_path, text)
    assert (fast.rows, fast.left, fast.notes) == (slow.rows, slow.left, slow.notes)
    assert len(slow) >= 60


def test_a_damaged_line_is_found_wherever_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr("analysis.readers.ours._FEW", 1)
    for bad in range(2, 10):
        records = [lines(RUN), *[lines(sample())] * 9]
        records[bad - 1] = records[bad - 1][:-9] + "\n"
        with pytest.raises(RefusedError) as error:
            found(tmp_path, "".join(records))
        assert error.value.line == bad


TIME = st.floats(1e-3, 1e7).map(lambda time: round(time, 3))
CELL = st.builds(
    sample,
    nbytes=st.integers(1, 2**40),
    times=st.lists(TIME, min_size=1, max_size=20),
    algorithm=st.sampled_from(["ring", "knomial_tree:4", "torus:direct+ring"]) | st.text(min_size=1, max_size=5),
    size=st.integers(2, 10**6),
    library=st.sampled_from(["mpi", "mpicoll"]),
    wrong=st.none() | st.just(0),
    in_place=st.booleans(),
)


@settings(max_examples=60)
@given(launches=st.lists(st.lists(CELL, min_size=1, max_size=5), min_size=1, max_size=3), data=st.data())
def test_round_trip(tmp_path_factory, launches, data):
    text = "".join(lines(ANY, *cells, END) for cells in launches)
    one = found(tmp_path_factory.mktemp("run"), text)
    expected = [(launch, cell) for launch, cells in enumerate(launches) for cell in cells]
    assert len(one.rows) == len(expected)
    for row, (launch, cell) in zip(one.rows, expected):
        assert row.time_us == pytest.approx(statistics.median(cell["times_us"]))
        assert row.launch == launch
        names = ("algorithm", "size", "library", "nbytes", "count", "wrong", "in_place", "dtype", "op", "call")
        for name in names:
            assert getattr(row, name) == cell[name]
    cut = data.draw(st.integers(0, len(text)))
    try:
        part = found(tmp_path_factory.mktemp("run"), text[:cut])
    except RefusedError:
        return
    assert part.rows == one.rows[: len(part.rows)]
