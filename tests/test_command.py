"""``python -m mpicoll``: what it prints, and what it says of arguments that make no sense."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction

import pytest

from mpicoll.__main__ import main, sizes
from mpicoll.schedule import COLLECTIVES, algorithms, find
from mpicoll.schedule.draw import contents, matrix


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_list_has_every_algorithm(collective, capsys):
    assert main(["list", "-c", collective, "-p", "6"]) == 0
    said = capsys.readouterr().out
    listed = [line.split()[0] for line in said.splitlines()[3:]]
    assert listed == list(algorithms(collective))


def test_show_draws_each_round(capsys):
    assert main(["show", "ring", "-p", "3"]) == 0
    said = capsys.readouterr().out
    assert "complete, identical" in said
    assert said.count("\nround ") == 4
    assert said.count("+>") == 6  # two rounds that reduce, of three messages
    assert said.count("->") == 6
    assert said.rstrip().endswith("rank 2  [3 3 3]")


def test_show_matrix(capsys):
    assert main(["show", "ring", "-p", "4", "--matrix"]) == 0
    last = capsys.readouterr().out.splitlines()[-4:]
    assert last[0].split() == ["0", ".", "0.75", ".", "0.75"]


def test_matrix_adds_up_to_what_is_sent():
    for name in algorithms("allreduce"):
        table = matrix(find("allreduce", name).schedule(7))
        assert sum(map(sum, table)) >= 2 * 6, name
        assert all(table[rank][rank] == Fraction(0) for rank in range(7))


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_the_picture_ends_with_what_each_rank_must_have(collective):
    for name, algorithm in algorithms(collective).items():
        schedule = algorithm.schedule(5, 2 if collective in ("reduce", "bcast") else 0)
        last = contents(schedule)[-1]
        for rank in range(5):
            for c in schedule.outputs(rank):
                whole = {c} if collective in ("allgather", "bcast") else set(range(5))
                assert last[rank][c] == whole, (name, rank, c)


def test_verify(capsys):
    assert main(["verify", "ring", "knomial_tree:3", "--sizes", "1-5,9"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [["ring", "6"], ["knomial_tree:3", "6"]]
    assert "rank order kept" in lines[1]
    assert "rank order kept" not in lines[0]


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["show", "rung"], "rung"),
        (["show", "ring:2"], "takes no parameter"),
        (["show", "knomial_tree:1"], "knomial_tree:1"),
        (["show", "knomial_tree:x"], "'x'"),
        (["show", "radix_k:2x3", "-p", "8"], "make 6, and there are 8"),
        (["show", "recursive_multiplying:2,4", "-p", "8"], "2,4"),
        (["show", "ring", "-p", "0"], "size 0"),
        (["show", "binomial_tree", "-c", "bcast", "-r", "4"], "root 4"),
    ],
)
def test_one_line_that_names_it(argv, named, capsys):
    assert main(argv) == 2
    said = capsys.readouterr().err
    assert named in said
    assert said.count("\n") == 1


def test_sizes():
    assert sizes("1-3,7") == [1, 2, 3, 7]
    with pytest.raises(Exception, match="5-2"):
        sizes("5-2")


def test_no_mpi_is_started():
    code = "import sys; from mpicoll.__main__ import main; main(['verify', 'ring']); "
    code += "assert not {'mpi4py', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
