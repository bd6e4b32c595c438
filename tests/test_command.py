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
    listed = [line.split()[0] for line in said.splitlines()[4:]]
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


@pytest.mark.parametrize("kind", ["png", "svg"])
@pytest.mark.parametrize("argv", [["ring"], ["torus", "-p", "8", "--nodes", "2", "--matrix"]])
def test_show_draws_pictures(kind, argv, tmp_path, capsys):
    path = tmp_path / f"picture.{kind}"
    assert main(["show", *argv, f"--{kind}", str(path)]) == 0
    data = path.read_bytes()
    assert len(data) > 5000
    assert data.startswith(b"\x89PNG") if kind == "png" else b"<svg" in data
    assert main(["show", *argv, f"--{kind}", str(path)]) == 2
    assert str(path) in capsys.readouterr().err
    assert path.read_bytes() == data


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
        (["show", "torus:direct"], "torus:direct"),
        (["show", "torus:direct+rung"], "rung"),
        (["show", "ring@0"], "ring@0"),
        (["show", "ring@2", "-c", "allgather"], "ring@2"),
        (
            ["predict", "ring", "-p", "8", "--bytes", "1", "--alpha", "1", "--bandwidth", "1", "--intra-alpha", "1"],
            "--ranks-per-node",
        ),
        (["show", "binomial_tree", "-c", "bcast", "-r", "4"], "root 4"),
    ],
)
def test_one_line_that_names_it(argv, named, capsys):
    assert main(argv) == 2
    said = capsys.readouterr().err
    assert named in said
    assert said.count("\n") == 1


def seconds(capsys, *argv: str) -> dict[str, float]:
    assert main(["predict", *argv]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]
    return {row[0]: float(row[1]) for row in rows if row[0] != "best"}


def test_predict_has_the_worked_examples_right(capsys):
    """The figures of circulating course notes, at their right values (the README says which are wrong)."""
    gpu = ("ring", "-p", "8", "--bytes", "1e9", "--alpha", "1e-6", "--bandwidth", "600e9")
    assert seconds(capsys, *gpu)["ring"] == pytest.approx(0.00293, rel=1e-3)
    fabric = ("ring", "-p", "8", "--bytes", "1e9", "--alpha", "2e-6", "--bandwidth", "25e9")
    assert seconds(capsys, *fabric)["ring"] == pytest.approx(0.0700, rel=1e-3)
    large = ("circulant", "-p", "1000", "--bytes", "1e9", "--alpha", "2e-6", "--bandwidth", "25e9")
    assert seconds(capsys, *large)["circulant"] == pytest.approx(0.0800, rel=1e-3)
    tree = ("binomial_tree", "-p", "1000", "--bytes", "1e9", "--alpha", "2e-6", "--bandwidth", "25e9")
    assert seconds(capsys, *tree)["binomial_tree"] == pytest.approx(0.80, rel=1e-3)
    counts = find("allreduce", "ring").schedule(4)
    assert sum(map(sum, matrix(counts))) == 6  # vectors on the wire: 6 GB for 4 x 1 GB


def test_predict_on_two_levels_and_crossovers(capsys):
    common = ("-p", "16", "--alpha", "2e-6", "--bandwidth", "25e9")
    levels = ("--ranks-per-node", "8", "--intra-alpha", "1e-6", "--intra-bandwidth", "300e9")
    names = ("torus:ring+ring", "ring")
    found = seconds(capsys, *names, "--bytes", "1e9", *common, *levels)
    # 2(q-1) alpha_i + 2(q-1)/q n beta_i + 2(N-1) alpha_e + 2(N-1)/N n/q beta_e
    expected = 14e-6 + 1.75 * 1e9 / 300e9 + 4e-6 + 1e9 / 8 / 25e9
    assert found["torus:ring+ring"] == pytest.approx(expected, rel=1e-3)
    assert found["ring"] > 5 * found["torus:ring+ring"]
    assert main(["predict", "recursive_doubling", "rabenseifner", "--bytes", "1e6", *common]) == 0
    said = capsys.readouterr().out
    # n* = L alpha / ((L - 2(p-1)/p) beta)
    crossover = 4 * 2e-6 / ((4 - 1.875) / 25e9)
    assert f"recursive_doubling below {crossover:.1e}"[:28] in said
    assert "then rabenseifner" in said


def test_sizes():
    assert sizes("1-3,7") == [1, 2, 3, 7]
    with pytest.raises(Exception, match="5-2"):
        sizes("5-2")


def test_no_mpi_is_started():
    code = "import sys; from mpicoll.__main__ import main; main(['verify', 'ring']); "
    code += "assert not {'mpi4py', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
