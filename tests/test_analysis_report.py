"""The page: right figures and words from runs of every kind, whole in itself, and as a real browser shows it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from browser import picture, use
from runs import OSU, SIZES, run_file

pytest.importorskip("pandas")
pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

import pandas as pd

from analysis.__main__ import main
from analysis.load import load
from analysis.report.data import MPI, Point, apart, factor, key, ratios, shown, speedups, split, winners
from analysis.report.maps import abbreviations
from analysis.report.style import human, microseconds


def page(tmp_path, *argv: str) -> str:
    """The text of the page of some runs, with a small bootstrap and forecast."""
    file = tmp_path / "report.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("analysis.curves.DRAWS", 5)
        patch.setattr("analysis.report.lines.FORECAST_TO", 16)
        assert main(["report", *argv, "-o", str(file)]) == 0
    return file.read_text(encoding="utf-8")


def figures(text: str) -> list[str]:
    return re.findall(r'<figure id="([^"]+)"', text)


@pytest.fixture(scope="module")
def scaling(tmp_path_factory):
    """Two launches on 2 ranks, and on 4 one of which was cut."""
    folder = tmp_path_factory.mktemp("runs")
    for size, launch in ((2, 1), (2, 2), (4, 1), (4, 2)):
        forced, whole = {"ring": 0.9, "tree": 1.1}, (size, launch) != (4, 2)
        run_file(folder / f"p{size}-{launch}.jsonl", size, launch=launch, forced=forced, complete=whole)
    file = folder / "page.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("analysis.curves.DRAWS", 20)
        assert main(["report", str(folder), "-o", str(file), "--launches", "2", "--png", str(folder / "png")]) == 0
    return file


def test_all_of_it(scaling):
    text = scaling.read_text(encoding="utf-8")
    names = figures(text)
    assert len(names) == len(set(names)) == 2 + 2 * 3 + 3 + 1
    for start in ("winners", "traffic", "time", "busbw", "speedup", "scaling", "residuals"):
        assert any(name.startswith(start) for name in names), start
    assert sorted(file.stem for file in (scaling.parent / "png").iterdir()) == sorted(names)
    assert "4 launches of allreduce float32 sum on 2 and 4 ranks of 2 nodes" in text
    assert "Launches on 4 ranks: 1 of 2 whole, missing 2." in text
    assert "Not run to the end" in text
    assert "extrapolated" in text
    assert "1024 ranks" in text  # the forecast
    assert "mpirun -n 4 python -m mpicoll.bench -e 2M -J p4-1.jsonl" in text
    assert "--launches 2" in text


def test_parameters_are_those_that_made_the_times(scaling):
    text = scaling.read_text(encoding="utf-8")
    row = re.search(r"<tr><td>alpha<td class=\"n\">([\d.e+-]+)", text)
    assert row
    assert float(row[1]) == pytest.approx(2e-6, rel=0.02)


def test_whole_in_itself(scaling):
    text = scaling.read_text(encoding="utf-8")
    links = set(re.findall(r'(?:src|href|url)\s*[=(]\s*["\']?([^"\')\s>]+)', text))
    links = {link for link in links if not link.startswith("data:image/")}
    assert {link for link in links if not link.startswith("#")} == set()
    inside = set(re.findall(r'id="([^"]+)"', text))
    assert {link[1:] for link in links} <= inside
    assert not re.findall(r"@import|<link|<iframe|fetch\(|XMLHttpRequest", text)


def test_every_number_is_in_a_table(scaling):
    text = scaling.read_text(encoding="utf-8")
    part = re.search(r'<figure id="time-allreduce-float32-sum-p2">.*?</figure>', text, re.DOTALL)
    assert part
    cells = re.findall(r"<tr><td>ring<td class=\"n\">(\d+)", part[0])
    assert [int(cell) for cell in cells] == list(SIZES)
    shown_points = re.findall(r"<title>ring, [^<]*</title>", part[0])
    assert len(shown_points) == len(SIZES)


@pytest.mark.parametrize("width", [1280, 390])
def test_in_a_browser(scaling, tmp_path, width):
    found = use(scaling, tmp_path, width)
    assert found["errors"] == []
    assert found["width"] == width
    assert found["wide"] <= width, "the page is wider than the window"
    assert found["figures"] == len(figures(scaling.read_text(encoding="utf-8")))
    assert all(drawn > 0.8 * min(width, 400) for drawn in found["drawn"] if drawn)
    assert found["outside"] == [], "words that leave their figure"
    assert len(found["ids"]) == len(set(found["ids"]))
    assert found["points"] > 100
    first, second, below, escaped = found["keys"]
    assert first
    assert second != first
    assert below not in (second, None)
    assert escaped is None
    assert "ranks, 8: " in found["hover"]
    assert 0 <= found["tip"][0] < found["tip"][1] <= width
    assert found["gone"]
    assert found["printed"] == [True]  # paper cannot be unfolded


@pytest.mark.parametrize("width", [1280, 390])
def test_its_picture(scaling, tmp_path, width):
    """Not empty, not black: paper with some ink on it."""
    from matplotlib.image import imread

    image = imread(picture(scaling, tmp_path, width))[..., :3]
    assert image.shape[1] == width
    grey = image.mean(axis=2)
    assert 0.5 < (grey > 0.95).mean() < 0.99
    assert 0.005 < (grey < 0.3).mean() < 0.2
    assert (image.max(axis=2) - image.min(axis=2) > 0.3).mean() > 0.003  # colours


def test_one_run_of_two_ranks(tmp_path):
    text = page(tmp_path, run_file(tmp_path / "a.jsonl", 2, launch=None))
    assert "1 launch of allreduce float32 sum on 2 ranks of 1 node" in text
    assert "1 of 1 whole" in text
    assert len(figures(text)) == 2 + 3 + 3 + 1
    assert 'class="warning"' not in text


def test_missing_launches_are_counted_and_named(tmp_path):
    runs = [run_file(tmp_path / f"{i}.jsonl", 2, launch=i) for i in (1, 3, 4)]
    text = page(tmp_path, *runs, "--launches", "5")
    assert "Launches on 2 ranks: 3 of 5 whole, missing 2 and 5." in text


def test_a_foreign_file_alone(tmp_path):
    (tmp_path / "osu.txt").write_text(OSU)
    text = page(tmp_path, str(tmp_path / "osu.txt"), "--size", "4")
    assert "on 4 ranks, from 1 file of OSU, which say nothing of the machine" in text
    assert figures(text) == ["time-allreduce-sum-p4", "busbw-allreduce-sum-p4"]
    assert "No speed-up" in text
    assert "a library&#39;s calls are fitted" in text
    assert "median over launches of the mean time." in text  # no rank's own, and no interval is known
    unknown = page(tmp_path, str(tmp_path / "osu.txt"))
    assert "an unknown number of ranks" in unknown
    assert "give --size P" in unknown


def test_a_cut_file(tmp_path):
    run_file(tmp_path / "a.jsonl", 4)
    text = (tmp_path / "a.jsonl").read_text()
    (tmp_path / "cut.jsonl").write_text(text[: len(text) // 2])
    assert "Not run to the end" in page(tmp_path, str(tmp_path / "cut.jsonl"))


def test_names_cannot_break_the_page(tmp_path):
    """What stands in a file is text, wherever it lands."""
    file = run_file(tmp_path / "a.jsonl", 2, host='<script>alert("x")</script>', forced={"</svg><b>&": 0.5})
    text = page(tmp_path, file)
    assert "<script>alert" not in text
    assert "</svg><b>" not in text


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        (["nothing.jsonl"], "nothing.jsonl: No such file"),
        (["a.jsonl", "-o", "a.jsonl"], "ends in .html"),
        (["a.jsonl", "-o", "nowhere/a.html"], "no such directory"),
        (["a.jsonl", "--launches", "0"], "at least 1"),
        (["a.jsonl", "--png", "a.jsonl"], "File exists"),
        (["a.jsonl", "--collective", "all"], "one of allreduce"),
    ],
)
def test_bad_input(tmp_path, monkeypatch, capsys, argv, word):
    monkeypatch.chdir(tmp_path)
    run_file(tmp_path / "a.jsonl")
    assert main(["report", *argv]) == 2
    said = capsys.readouterr().err
    assert word in said
    assert said.count("\n") == 1
    assert not (tmp_path / "report.html").exists()


def test_without_jinja2(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("analysis.report.command.find_spec", lambda name: None)
    assert main(["report", run_file(tmp_path / "a.jsonl")]) == 2
    assert "pip install -e '.[analysis]'" in capsys.readouterr().err


def test_devices_are_not_compared_with_each_other(tmp_path):
    """Host and device memory are two cases; what went through the host's is a series of its own."""
    tables = []
    for i, change in enumerate(({}, {"device": "cuda"}, {"device": "cuda", "transport": "staged"})):
        file = run_file(tmp_path / f"{i}.jsonl", sizes=(8,))
        lines = [json.loads(line) for line in Path(file).read_text().splitlines()]
        lines = [line | change if line.get("library") == "mpicoll" else line for line in lines]
        Path(file).write_text("".join(json.dumps(line) + "\n" for line in lines))
        tables.append(load([file]))
    host, device = split(pd.concat(tables).reset_index(drop=True)).items()
    assert (str(host[0]), str(device[0])) == ("allreduce float32 sum", "allreduce float32 sum on cuda")
    assert {"ring", "ring (staged)"} < set(device[1][2])
    assert "ring (staged)" not in host[1][2]
    assert key("ring (staged)") == "ring"


def test_who_wins_and_how_surely():
    def at(*times: float, wide: float = 0.01) -> list[Point]:
        by_launch = tuple(enumerate(times))
        return [Point(8, times[0], times[0] * (1 - wide), times[0] * (1 + wide), by_launch)]

    assert winners({MPI: at(2.0), "ring": at(1.0)})[8] == ("ring", MPI, 2.0, True)
    assert not winners({MPI: at(1.01), "ring": at(1.0)})[8].sure  # intervals meet
    assert winners({MPI: at(2.0, 9.0, wide=0.9), "ring": at(1.0, 8.0, wide=0.9)})[8].sure  # faster in each launch
    assert not winners({MPI: at(2.0, 9.0), "ring": at(1.0, 9.5)})[8].sure
    assert not winners({MPI: at(1.03, 1.2), "ring": at(1.0, 1.0)})[8].sure  # which of two launches do by chance
    assert winners({MPI: at(*[1.03] * 6), "ring": at(*[1.0] * 6)})[8].sure  # and six do not
    assert winners({MPI: at(1.0)})[8] == (MPI, None, 1.0, True)
    assert not apart(Point(8, 1.0), Point(8, 1.04))  # no interval is known
    assert apart(Point(8, 1.0), Point(8, 1.06))
    assert ratios(Point(8, 1, by_launch=((1, 4.0), (2, 6.0))), Point(8, 1, by_launch=((2, 3.0), (3, 1.0)))) == [2.0]


def test_speedup_is_of_each_launch_against_its_own():
    """A launch that is slow as a whole does not make a speed-up."""
    mpi = [Point(8, 11.0, 2.0, 20.0, ((0, 2.0), (1, 20.0)))]
    ring = [Point(8, 5.5, 1.0, 10.0, ((0, 1.0), (1, 10.0)))]
    assert speedups({MPI: mpi, "ring": ring}) == {"ring": [Point(8, 2.0, 2.0, 2.0)]}


def test_a_winner_is_always_shown():
    series = {f"a{i}": [Point(8, 1.0 + i), Point(64, 1.0 + i)] for i in range(20)}
    series |= {MPI: [Point(8, 9.0), Point(64, 9.0)], "late": [Point(8, 90.0), Point(64, 0.1)]}
    assert {MPI, "late", "a0"} <= set(shown(series, 4))


def test_words():
    assert [human(n) for n in (8, 1000, 1 << 10, 3 << 19, 1 << 30)] == ["8", "1000", "1K", "1.5M", "1G"]
    assert [microseconds(t) for t in (0.5, 12.34, 1500, 2.5e6)] == ["0.5 µs", "12.3 µs", "1.5 ms", "2.5 s"]
    names = abbreviations(["recursive_doubling", "ring", "reverse_direct", "rabenseifner", "MPI call"])
    assert len(set(names.values())) == len(names)
    assert [factor(c, 4) for c in ("allreduce", "allgather", "bcast")] == [1.5, 0.75, 1]
