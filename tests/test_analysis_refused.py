"""What must not be loaded in silence: copies, rows out of line, pipes, outputs over runs, what is not installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from launching import ROOT
from runs import OSU, run_file

pytest.importorskip("pandas")

from analysis.__main__ import main
from analysis.load import load, load_file
from analysis.samples import RefusedError


def test_what_would_count_twice_is_refused(tmp_path):
    """By name, by link, as a copy, and within a file."""
    file, copy, link = (tmp_path / name for name in ("a.txt", "b.txt", "c.txt"))
    rows = "".join(f"{8 << i:<10}{1.5 * i + 10:18.2f}\n" for i in range(8))
    table = f"# OSU MPI Allreduce Latency Test v5.9\n# Size       Avg Latency(us)\n{rows}"
    file.write_text(table)
    copy.write_text(table)
    link.symlink_to(file)
    for others, word in (([file], "second time"), ([copy], "a copy of"), ([link], "second time")):
        with pytest.raises(RefusedError, match=word):
            load([str(one) for one in (file, *others)])
    copy.write_text(table + table)
    with pytest.raises(RefusedError, match=r"b.txt:13: the same table a second time \(line 3\)"):
        load([str(copy)])
    run = '{"record":"run","schema":1,"size":2,"time":"2026-01-01T00:00:00+00:00"}\n'
    copy.write_text(run + run)
    with pytest.raises(RefusedError, match=r"b.txt:2: the same run"):
        load([str(copy)])


def test_a_run_that_is_in_two_files_is_refused(tmp_path, capsys):
    """Files that are no copies of each other can hold the same launch; nor is a run judged or scored by itself."""
    one, two, joined = (run_file(tmp_path / name, launch=i) for i, name in enumerate("abc"))
    whole = "".join(Path(file).read_text() for file in (one, two))
    Path(joined).write_text(whole)
    for argv in (["load", one, joined], ["fit", one, joined], ["export", one, joined, "--for", "intel"],
                 ["verdict", one, "--new", joined], ["recommend", one, "--score", joined],
                 ["report", one, joined, "-o", str(tmp_path / "x.html")]):  # fmt: skip
        assert main(argv) == 2
        assert f"{joined}:1: a run that is in {one} too: its rows would count twice\n" == capsys.readouterr().err
    rows = "".join(f"{8 << i:<10}{1.5 * i + 10:18.2f}\n" for i in range(8))
    for name, above in (("d", ""), ("e", "a log\n")):
        (tmp_path / name).write_text(f"{above}# OSU MPI Allreduce Latency Test v5.9\n# Size  Avg Latency(us)\n{rows}")
    with pytest.raises(RefusedError, match="its rows would count twice"):
        load([str(tmp_path / "d"), str(tmp_path / "e")])


@pytest.mark.parametrize(("module", "argv"), [("pandas", ["--help"]), ("scipy", ["fit", "FILE@4"])])
def test_what_is_not_installed_is_one_line(tmp_path, module, argv):
    (tmp_path / "a.txt").write_text(OSU)
    argv = [word.replace("FILE", str(tmp_path / "a.txt")) for word in argv]
    code = f"import runpy, sys; sys.modules[{module!r}] = None; runpy.run_module('analysis', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert f"there is no {module}" in done.stderr
    assert "pip install" in done.stderr


def test_a_pipe_and_a_file_that_would_be_lost(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RefusedError, match="a pipe"):
        load([str(tmp_path / "pipe")])
    run = tmp_path / "run.html"
    run.write_text(OSU)
    assert main(["load", f"{run}@4", "--to", "csv", str(run)]) == 2
    assert main(["report", f"{run}@4", "-o", str(run)]) == 2
    assert capsys.readouterr().err.count("would be lost") == 2
    assert run.read_text() == OSU


def test_a_row_out_of_line_is_refused(tmp_path):
    """A byte that was lost inside a table that is set in columns; what is no figure at all is said, not passed over."""
    rows = [f"{8 << i:<10}{3.7 * 4**i:18.2f}" for i in range(8)]
    head = "# OSU MPI Allreduce Latency Test v5.9\n# Size       Avg Latency(us)\n"
    file = tmp_path / "a.txt"
    for row in (2, 5):
        for at in (0, -1, -4):
            lost = [
                line[: at % len(line)] + line[at % len(line) + 1 :] if i == row else line for i, line in enumerate(rows)
            ]
            file.write_text(head + "\n".join(lost) + "\n")
            with pytest.raises(RefusedError, match=rf"a.txt:{row + 3}: a row out of line"):
                load([str(file)])
    for strange in ("32                    inf", "9" * 30 + "  1.00"):
        file.write_text(head + "\n".join([*rows, strange]) + "\n")
        assert load_file(str(file)).left == {"damaged row": [11]}
