"""The bench's command line and table, which need no MPI."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading

import pytest

from mpicoll import launcher
from mpicoll.bench import options
from mpicoll.schedule import COLLECTIVES


def test_the_default_sweep():
    chosen = options.parse([])
    sizes = options.counts(chosen, 4)
    assert sizes[0] == 2
    assert sizes[-1] == (4 << 20) // 4
    assert sizes == sorted(set(sizes))
    assert set(chosen.algorithms) >= {"ring", "recursive_doubling", "binomial_tree"}


def test_the_default_where_ranks_are_no_power_of_two():
    names = options.parse([]).algorithms
    assert options.suit(names, 8) == names
    assert "circulant" in options.suit(names, 6)
    assert "rabenseifner" not in options.suit(names, 6)


@pytest.mark.parametrize(
    ("text", "nbytes"), [("8", 8), ("4K", 4096), ("1M", 1 << 20), ("2G", 2 << 30), ("4kib", 4096), ("0", 0)]
)
def test_sizes(text, nbytes):
    assert options.size(text) == nbytes


def test_zero_bytes_and_whole_elements():
    assert options.counts(options.parse(["-b", "0", "-e", "16"]), 4) == [0, 1, 2, 4]
    assert options.counts(options.parse(["-b", "1", "-e", "8"]), 8) == [1]
    assert options.counts(options.parse(["-b", "0", "-e", "0"]), 4) == [0]


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["--nonsense"], "--nonsense"),
        (["--min", "8"], "--min"),
        (["-b", "64", "-e", "8"], "-e 8"),
        (["-b", "-1"], "-b"),
        (["-b", "eight"], "eight"),
        (["-f", "1"], "-f"),
        (["-n", "0"], "-n"),
        (["-n", "1.5"], "-n"),
        (["-w", "-1"], "-w"),
        (["-d", "float128x"], "float128x"),
        (["-o", "sub"], "sub"),
        (["-o", "max", "--collective", "bcast"], "max"),
        (["--collective", "gather"], "gather"),
        (["--algorithms", "rung"], "recursive_doubling"),
        (["--algorithms", ","], "at least one"),
        (["--segment-bytes", "0"], "--segment-bytes"),
        (["--max-time", "nan"], "--max-time"),
        (["-J", __file__], "exists"),
    ],
)
def test_what_makes_no_sense_is_one_line_that_names_it(argv, named, capsys):
    with pytest.raises(SystemExit) as stop:
        options.parse(argv)
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert named in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("argv", [["--help"], ["--nonsense"]])
def test_help_and_errors_start_no_mpi_and_one_rank_speaks(argv):
    code = "import sys, runpy\ntry:\n runpy.run_module('mpicoll.bench', run_name='__main__')\n"
    code += "finally:\n assert not {'mpi4py', 'numpy'} & set(sys.modules), 'imported'"
    for rank, speaks in (("0", True), ("3", False)):
        done = subprocess.run(
            [sys.executable, "-c", code, *argv], capture_output=True, text=True, env={"PMI_RANK": rank}, check=False
        )
        # The one that speaks fails: a launcher may end all ranks at the first that does, before another has spoken.
        assert done.returncode == (2 if argv != ["--help"] and speaks else 0), done.stderr
        assert bool(done.stdout + done.stderr) is speaks


def test_what_was_said_is_waited_for_until_it_is_read():
    read, write = os.pipe()
    os.write(write, b"a traceback")
    threading.Timer(0.2, os.read, (read, 100)).start()
    launcher.heard(write, os.open(os.devnull, os.O_WRONLY))
    assert not select.select([read], [], [], 0)[0]


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_all_and_default_name_algorithms_of_the_collective(collective):
    every = options.chosen(collective, "all")
    assert set(options.chosen(collective, "default")) <= set(every)
    assert options.chosen(collective, f"{every[0]},{every[0]}") == [every[0]]
