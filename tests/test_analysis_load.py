"""The tables that people already have: each loads right or is refused with file, line and reason."""

import json

import pytest

pytest.importorskip("pandas")

from analysis.__main__ import main
from analysis.load import load, load_file
from analysis.samples import COLUMNS, Asked, RefusedError

OSU = """\
Loading modules: mpich
# OSU MPI Allreduce Latency Test v5.9
# Size       Avg Latency(us)
4                       2.25
8                       2.50
16                     10.75
"""
OSU_FULL = """\
# OSU MPI-CUDA Allreduce Latency Test v7.5
# Datatype: MPI_INT.
# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations    P50 Tail Lat(us)        Validation
4                       2.25              1.25              3.25        1000                2.00              Pass
[node7:77:0] some.c:12  ERROR between the rows
8                       2.50              1.50              3.50         100                2.75              Pass
16                      9.50              8.50             10.50          10                9.25              Fail
"""
IMB = """\
#    Intel(R) MPI Benchmarks 2019, MPI-1 part
# MPI_Datatype for reductions    :   MPI_FLOAT
# MPI_Op                         :   MPI_SUM
#-----------------------------------------
# Benchmarking Allreduce
# #processes = 6
# ( 26 additional processes waiting in MPI_Barrier)
#-----------------------------------------
       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]      defects
            0         1000         0.05         0.07         0.06         0.00
            4         1000         5.25         6.25         5.75         0.00
            8          500         6.25         7.25         6.75         0.00
           16          250         7.25         8.25         7.75         2.00
"""
NCCL_HEAD = """\
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""


def rank_lines(count):
    return "# Using devices\n" + "".join(
        f"#  Rank {i:2} Group  0 Pid  {900 + i} on host{i // 4} device {i % 4:2} [0x07] GPU\n" for i in range(count)
    )


def nccl_row(nbytes, out, inside, p, wrong=(0, 0), op="sum"):
    halves = ""
    for time, bad in zip((out, inside), wrong):
        alg = nbytes / time / 1e3
        halves += f"  {time:7.2f}  {alg:6.2f}  {alg * 2 * (p - 1) / p:6.2f}  {bad:>5}"
    return f"{nbytes:12}  {nbytes // 4:12}     float     {op}      -1{halves}\n"


NCCL = rank_lines(8) + NCCL_HEAD + nccl_row(8, 20.5, 19.5, 8) + nccl_row(2**24, 150.25, 151.5, 8, (0, 3))


def found(tmp_path, text, **asked):
    file = tmp_path / "some.run"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_file(str(file), Asked(**asked))


def cells(one, *names):
    return [tuple(getattr(row, name) for name in names) for row in one.rows]


def refusal(tmp_path, text, **asked):
    with pytest.raises(RefusedError) as error:
        found(tmp_path, text, **asked)
    said = str(error.value)
    assert said.startswith(str(tmp_path / "some.run") + ":")
    assert "\n" not in said
    return error.value.line, error.value.reason


def test_osu_plain(tmp_path):
    one = found(tmp_path, OSU)
    assert cells(one, "line", "nbytes", "time_us", "size") == [
        (4, 4, 2.25, None),
        (5, 8, 2.5, None),
        (6, 16, 10.75, None),
    ]
    assert any("--size" in note for note in one.notes)
    assert cells(found(tmp_path, OSU, size=6), "size") == [(6,)] * 3


def test_osu_columns_are_taken_by_name(tmp_path):
    one = found(tmp_path, OSU_FULL, size=4)
    assert cells(one, "nbytes", "time_us", "low_us", "high_us", "n_samples", "wrong", "dtype", "count") == [
        (4, 2.0, None, None, 1000, 0, "int32", 1),
        (8, 2.75, None, None, 100, 0, "int32", 2),
    ]
    assert one.left == {"failed its check": [7]}
    without_percentiles = OSU_FULL.replace("P50 Tail Lat(us)", "P99 Tail Lat(us)")
    assert cells(found(tmp_path, without_percentiles), "time_us", "statistic") == [(3.25, "max"), (3.5, "max")]


@pytest.mark.parametrize(
    ("name", "nbytes"), [("Allreduce", 4), ("Allgather", 24), ("Reduce_scatter", 4), ("Reduce_scatter_block", 24)]
)
def test_imb_bytes_are_of_the_whole_vector(tmp_path, name, nbytes):
    """Some of IMB's bytes are those of one rank's part."""
    assert cells(found(tmp_path, IMB.replace("Allreduce", name)), "nbytes")[0] == (nbytes,)


@pytest.mark.parametrize("text", [OSU_FULL, IMB])
def test_fastest_and_slowest_are_no_interval(tmp_path, text):
    """Of ranks, or of iterations: a report would draw them as how well a time is known, and tell by them who wins."""
    assert set(cells(found(tmp_path, text, size=6), "low_us", "high_us")) == {(None, None)}


def test_osu_several_tables_in_one_log(tmp_path):
    other = OSU.replace("Allreduce Latency", "Latency")
    one = found(tmp_path, OSU + other + OSU.replace("2.25", "3.25"))
    assert cells(one, "launch", "time_us")[::3] == [(0, 2.25), (1, 3.25)]
    assert list(map(len, one.left.values())) == [3]


def test_osu_ranks_from_the_schedulers_log(tmp_path):
    log = '{"name":"shell.start","context":{"taskmap":{"version":1,"map":[[0,3,8,1]]}}}\n'
    assert cells(found(tmp_path, OSU + log), "size", "nodes")[0] == (24, 3)
    assert refusal(tmp_path, OSU + log, size=12) == (4, "--size 12, but the file says 24 ranks")


def test_osu_allgather_bytes_are_of_the_whole_vector(tmp_path):
    text = OSU.replace("Allreduce", "Allgather")
    assert cells(found(tmp_path, text, size=5), "nbytes", "collective")[0] == (20, "allgather")
    assert "--size" in refusal(tmp_path, text)[1]


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        (OSU.replace("2.50", "2.50   7"), 5, "3 figures under 2 columns"),
        (OSU.replace("8                       2.50", "8"), 5, "fewer figures"),
        (OSU.replace("16 ", "8 "), 6, "a second time"),
        (OSU.replace("(us)", "(furlongs)"), 3, "unit"),
        (OSU.replace("Allreduce Latency", "Alltoall Latency"), 4, "no row can be taken"),
        ("srun: error: no nodes\n", 1, "no table"),
        (OSU + IMB, None, "split"),
        ("\0\0", None, "not text"),
        (" \n", None, "empty"),
    ],
)
def test_refusals_name_line_and_reason(tmp_path, text, line, word):
    at, reason = refusal(tmp_path, text)
    assert (at, word in reason) == (line, True), (at, reason)


def test_a_cut_last_row_is_left(tmp_path):
    for text in (OSU, OSU_FULL, IMB):
        whole = set(cells(found(tmp_path, text), "line", "nbytes", "time_us"))
        for end in range(len(text)):
            try:
                one = found(tmp_path, text[:end])
            except RefusedError:
                continue
            assert set(cells(one, "line", "nbytes", "time_us")) <= whole, text[:end]
    killed = IMB.replace("7.25         8.25         7.75         2.00\n", "7.\nslurmstepd: error: killed\n")
    assert found(tmp_path, killed).left["cut row"] == [13]
    glued = IMB.replace("  500         6.25         7.25         6.75         0.00\n", "").replace("2.00", "")
    assert "not in order" in refusal(tmp_path, glued.replace("8.25 ", "0.25 "))[1]


def test_imb(tmp_path):
    one = found(tmp_path, IMB)
    assert cells(one, "nbytes", "time_us", "low_us", "size", "n_samples", "dtype", "op", "wrong", "statistic") == [
        (4, 6.25, None, 6, 1000, "float32", "sum", 0, "max"),
        (8, 7.25, None, 6, 500, "float32", "sum", 0, "max"),
    ]
    assert one.left == {"0 bytes: nothing is moved": [10], "failed its check": [13]}
    assert refusal(tmp_path, IMB, size=32)[1] == "--size 32, but the file says 6 ranks"
    assert "p = 1" in refusal(tmp_path, IMB.replace("processes = 6", "processes = 1"))[1]


def test_imb_errors_between_rows_and_labels(tmp_path):
    error = "3: Error Allreduce,size = 4,sample #0\nProcess 3: Got invalid buffer:\n"
    one = found(tmp_path, IMB.replace("            4  ", error + "            4  "))
    assert cells(one, "nbytes") == [(8,)]
    labelled = "".join(f"Mon Jan  1 10:00:00 2024[1,0]<stdout>:{line}\n" for line in IMB.splitlines())
    assert cells(found(tmp_path, labelled), "nbytes") == [(4,), (8,)]


def test_nccl(tmp_path):
    one = found(tmp_path, NCCL)
    assert cells(one, "nbytes", "time_us", "in_place", "size", "nodes", "wrong", "collective") == [
        (8, 20.5, False, 8, 2, 0, "allreduce"),
        (8, 19.5, True, 8, 2, 0, "allreduce"),
        (2**24, 150.25, False, 8, 2, 0, "allreduce"),
    ]
    assert one.left == {"failed its check": [14]}


def test_nccl_numbers_are_held_against_one_another(tmp_path):
    table = nccl_row(2**24, 150.25, 151.5, 16) + nccl_row(2**25, 300.25, 301.5, 16)
    assert set(cells(found(tmp_path, NCCL_HEAD + table), "size", "collective")) == {(16, "allreduce")}
    assert set(cells(found(tmp_path, table), "size", "collective")) == {(16, "allreduce")}  # as grep leaves it
    assert "busbw/algbw says 16" in refusal(tmp_path, rank_lines(8) + NCCL_HEAD + table)[1]
    assert "--size 8" in refusal(tmp_path, NCCL_HEAD + table, size=8)[1]
    assert "do not agree" in refusal(tmp_path, NCCL_HEAD + table.replace("150.25", "250.25"))[1]
    assert "one rank alone" in refusal(tmp_path, NCCL_HEAD + nccl_row(2**24, 150.25, 151.5, 1))[1]
    assert "listed again" in refusal(tmp_path, rank_lines(1) + "# nThread 1\n" + rank_lines(1) + NCCL_HEAD + table)[1]
    assert "a second time" in refusal(tmp_path, rank_lines(1) + rank_lines(1)[16:] + NCCL_HEAD + table)[1]
    assert "do not agree" in refusal(tmp_path, NCCL_HEAD.replace("(us)", "(ms)") + table)[1]
    assert "--collective" in refusal(tmp_path, NCCL_HEAD + nccl_row(8, 20.5, 19.5, 8))[1]


def test_nccl_json(tmp_path):
    half = {"time": 100.0, "alg_bw": 167.77216, "bus_bw": 293.60128, "nwrong": 0.0}
    row = {"size": 2**24, "count": 2**22, "type": "float", "redop": "sum", "root": "    -1", "out_of_place": half}
    row |= {"in_place": half | {"nwrong": 2.0}, "actual_iterations": 20, "experiment_name": "all_reduce_perf"}
    devices = [{"rank": i, "hostname": f"h{i // 4}"} for i in range(8)]
    document = {"version": 2, "args": ["./all_reduce_perf"], "config": {"devices": devices}, "results": [row]}
    one = found(tmp_path, json.dumps(document))
    assert cells(one, "time_us", "size", "nodes", "in_place", "n_samples") == [(100.0, 8, 2, False, 20)]
    assert one.left == {"failed its check": [1]}
    assert "stops" in refusal(tmp_path, json.dumps(document)[:-9])[1]
    flat = {"name": "AllReduce", "ranks": 8, "nodes": 1, "size": 2**24, "type": "float", "redop": "sum", "inPlace": 1}
    flat |= {"time": 100.0, "algBw": 167.77, "busBw": 293.6, "wrong": "0"}
    assert cells(found(tmp_path, json.dumps([flat])), "time_us", "size", "in_place") == [(100.0, 8, True)]


def test_csv_wide(tmp_path):
    by_ranks = "size,4,6\n8,1.5,2.5\n16,3.5,4.5\n"
    assert cells(found(tmp_path, by_ranks, unit="ms"), "nbytes", "size", "time_us") == [
        (8, 4, 1500.0),
        (8, 6, 2500.0),
        (16, 4, 3500.0),
        (16, 6, 4500.0),
    ]
    assert refusal(tmp_path, by_ranks) == (1, "no unit in the name of column '4': give --unit us, ms or s")
    assert "--size 4" in refusal(tmp_path, by_ranks, unit="us", size=4)[1]
    by_name = "size,ring (us),1. tree (us)\n8,1.5,\n16,3.5,4.5\n"
    assert cells(found(tmp_path, by_name), "nbytes", "algorithm", "time_us") == [
        (8, "ring", 1.5),
        (16, "ring", 3.5),
        (16, "1. tree", 4.5),
    ]
    assert refusal(tmp_path, by_name + "32,1\n64,1.5,2.5\n")[0] == 4
    assert found(tmp_path, by_name + "32,1.5,2").left == {"cut row (no end of line)": [4]}


def test_csv_long(tmp_path):
    calls = "algorithm,nprocs,count,time (s),is_correct,k\n"
    rows = [f"ring,4,2,{time},1,3\n" for time in ("9.0", "1e-6", "3e-6", "2e-6", "2e-6")] + ["ring,4,4,1e-6,0,3\n"]
    one = found(tmp_path, calls + "".join(rows), dtype="float32")
    assert cells(one, "nbytes", "size", "n_samples", "algorithm", "wrong") == [(8, 4, 5, "ring", 0)]
    assert one.rows[0].time_us == pytest.approx(2.0)
    assert one.left == {"failed its check": [7]}
    assert "--dtype" in refusal(tmp_path, calls + "".join(rows))[1]
    assert "'k'" in refusal(tmp_path, calls + rows[0] + rows[1].replace(",3\n", ",4\n"), dtype="float32")[1]


def test_command(tmp_path, capsys):
    good, bad, out = (str(tmp_path / name) for name in ("good.txt", "bad.txt", "out.csv"))
    (tmp_path / "good.txt").write_text(IMB)
    (tmp_path / "bad.txt").write_text("nothing\n")
    assert main(["load", good, "--to", "csv", out]) == 0
    said = capsys.readouterr()
    assert "2 rows taken" in said.out
    assert "left 1: failed its check (line 13)" in said.out
    again = load([out])
    assert list(again.columns) == list(COLUMNS)
    first = load([good])
    same = [name for name in COLUMNS if name not in ("file", "line", "kind")]
    assert again[same].astype(str).values.tolist() == first[same].astype(str).values.tolist()
    assert main(["load", good, bad]) == 2
    assert capsys.readouterr().err == f"{bad}:1: no table that is known: 'nothing'\n"
    assert main(["load", good, good]) == 2
    assert main(["load", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err.count("\n") == 2
