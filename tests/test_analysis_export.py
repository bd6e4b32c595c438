"""Tuning files of the libraries: what is written is read back, what is malformed is refused."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import run_file

pytest.importorskip("pandas")


from analysis.__main__ import main
from analysis.export import intel, mpich, nccl, openmpi, openmpi_json
from analysis.export.advice import DEFAULT, Band, Calls, Rule, bands, checked, surely_faster
from analysis.export.command import normal
from analysis.export.malformed import MalformedError
from analysis.export.names import INTEL, MPICH, OPENMPI, resolve

# A table of one's own with the shape of MPICH's: every collective, tests by bytes, a last one.
OWN = {
    "comm_type=intra": {
        "avg_msg_size<=8": {"algorithm=MPIR_Allreduce_intra_recursive_doubling": {}},
        "avg_msg_size=any": {"algorithm=MPIR_Allreduce_intra_smp": {}},
    },
    "comm_type=inter": {"algorithm=MPIR_Allreduce_inter_reduce_exchange_bcast": {}},
}
BASE = {f"collective={n}": OWN if n == "allreduce" else {f"algorithm=MPIR_{n}_x": {}} for n in mpich.NEEDED}
quick = settings(max_examples=30)
NCCL_NAMES = [f"{a}/{p}" for a in ("tree", "ring", "nvls") for p in ("ll", "simple")]


def advice(names: dict[str, list[str]], most_bytes: int = 2**40, default: bool = True) -> st.SearchStrategy[Calls]:
    def of(call: str, algorithms: list[str]) -> st.SearchStrategy[tuple[Band, ...]]:
        name = st.sampled_from(algorithms + [DEFAULT] * default)
        sizes = st.lists(st.integers(1, most_bytes), unique=True, max_size=5).map(lambda found: [0, *sorted(found)])
        rules = sizes.flatmap(
            lambda found: st.tuples(*[name.map(lambda n, nbytes=nbytes: Rule(nbytes, n)) for nbytes in found])
        )
        edges = st.lists(st.integers(1, 10**5), unique=True, min_size=2, max_size=6).map(sorted)

        def made(found: list[int]) -> st.SearchStrategy[tuple[Band, ...]]:
            spans = list(zip(found[::2], [*(edge - 1 for edge in found[1::2]), None]))[: len(found) // 2]
            spans = [(first, max(first, last)) if last else (first, None) for first, last in spans]
            return st.tuples(*[rules.map(lambda r, span=span: Band(*span, r)) for span in spans])

        return edges.flatmap(made)

    return st.fixed_dictionaries({call: of(call, algorithms) for call, algorithms in names.items()})


ALLREDUCE = ["allreduce"]
WAYS: dict[str, tuple[st.SearchStrategy[Calls], Callable[[Calls], str], Callable[[str], Calls]]] = {
    "openmpi4": (advice({c: list(n) for c, n in openmpi.known(4).items()}), lambda c: openmpi.write(c, "a\nb", 4),
                 lambda t: openmpi.read(t, 4)),
    "openmpi5": (advice({c: list(n) for c, n in OPENMPI.items()}), lambda c: openmpi.write(c, "", 5),
                 lambda t: openmpi.read(t, 5)),
    "openmpi6": (advice({c: list(n) for c, n in openmpi_json.known().items()}), openmpi_json.write, openmpi_json.read),
    "mpich": (advice({"allreduce": list(MPICH)}, 2**31 - 1), lambda c: mpich.write(c, BASE), mpich.read),
    "intel": (advice({"allreduce": list(INTEL)}, 2**31 - 1), lambda c: intel.write(c, "3:0-1"), intel.read),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@quick
@given(data=st.data())
def test_what_is_written_is_read_back(way, data):
    strategy, write, read = WAYS[way]
    calls = checked(data.draw(strategy))
    assert normal(read(write(calls))) == normal(calls)


@quick
@given(calls=advice({"allreduce": NCCL_NAMES}, default=False))
def test_nccl_says_every_size_for_a_number_of_ranks(calls):
    text = nccl.write(calls, "a comment, with a comma", 8)
    exact = {call: tuple(band._replace(last=band.first) for band in found) for call, found in calls.items()}
    assert nccl.read(text) == exact
    assert all(line.split(",")[5] == "8" for line in text.splitlines() if not line.startswith("#"))


@pytest.mark.parametrize("way", WAYS)
@quick
@given(data=st.data())
def test_a_damaged_file_is_refused_or_says_something_else(way, data):
    """One character less or more: never a traceback, never more than the grammar allows."""
    strategy, write, read = WAYS[way]
    text = write(data.draw(strategy))
    at = data.draw(st.integers(0, len(text) - 1))
    insert = data.draw(st.sampled_from(["", "0", "9", "-", "x", '"', ",", "\n", " "]))
    damaged = text[:at] + insert + text[at + (not insert) :]
    try:
        checked(read(damaged))
        return
    except MalformedError as error:
        found = error
    assert 1 <= found.line <= damaged.count("\n") + 1
    assert found.reason


CLASSIC = "1\n2\n1\n4 2\n0 3 0 0\n1024 4 0 0\n"
JSON6 = '{"rule_file_version": 3, "module": "tuned", "collectives": {\n'
JSON6 += '"allreduce": [ {"comm_size_min": 4,\n"rules": [%s] } ] } }'


@pytest.mark.parametrize(
    ("read", "text", "line", "word"),
    [
        (lambda t: openmpi.read(t, 5), CLASSIC.replace("1024", "01024"), 6, "octal"),
        (lambda t: openmpi.read(t, 5), CLASSIC.replace("1024", "1k"), 6, "no plain number"),
        (lambda t: openmpi.read(t, 5), CLASSIC.replace("0 3 0 0", "8 3 0 0"), 5, "must be for 0"),
        (lambda t: openmpi.read(t, 5), CLASSIC.replace("1024", "0"), 6, "ascend"),
        (lambda t: openmpi.read(t, 5), CLASSIC.replace("1024 4", "1024 7"), 6, "algorithm 7"),
        (lambda t: openmpi.read(t, 5), CLASSIC.replace("1\n2\n", "1\n6\n", 1), 2, "collective 6"),
        (lambda t: openmpi.read(t, 5), CLASSIC.replace("4 2\n", "4 3\n"), 6, "ends where"),
        (lambda t: openmpi.read(t, 5), CLASSIC.replace("4 2\n", "4 1\n"), 6, "too small"),
        (lambda t: openmpi.read(t, 5), "# a comment\nrule-file-version-2\n" + CLASSIC, 2, "very first"),
        (lambda t: openmpi.read(t, 4), CLASSIC.replace("\n2", "\n0", 1).replace("4 0 0", "7 0 0"), 6, "algorithm 7"),
        (openmpi_json.read, JSON6 % '{"msg_size_max": 7,}', 3, "no JSON"),
        (openmpi_json.read, JSON6 % '{"msg_size_max": 7}', 3, "without alg"),
        (openmpi_json.read, JSON6 % '{"alg": "nothing"}', 3, "pass over"),
        (openmpi_json.read, JSON6 % '{"alg": "ring", "segsize": 4}', 3, "seg_size"),
        (openmpi_json.read, JSON6 % '{"alg": "ring"},\n{"msg_size_min": 8, "alg": "ring"}', 4, "first match"),
        (openmpi_json.read, (JSON6 % '{"alg": "ring"}').replace('_min": 4', '_max": "inf"'), 2, "whole"),
        (openmpi_json.read, (JSON6 % '{"alg": "ring"}').replace("allreduce", "reducescatter"), 1, "reducescatter"),
        (intel.read, "export I_MPI_ADJUST_ALLREDUCE='13:0-8'", 1, "no algorithm"),
        (intel.read, "# x\nexport I_MPI_ADJUST_ALLREDUCE='2:8-4@2'", 2, "ends before"),
        (intel.read, "export I_MPI_ADJUST_ALLREDUCE='2:0-8@2-4;3:8-9@2-4'", 1, "overlap at 8 bytes"),
        (intel.read, "export I_MPI_ADJUST_ALLREDUCE='2:0-8@2-4;3:8-9@3-5'", 1, "overlap at 3 ranks"),
        (intel.read, "I_MPI_ADJUST_ALLREDUCE=2", 1, "no line of the form"),
        (nccl.read, "allreduce,0,8,tree,simple,-1,-1,8", 1, "would take one"),
        (nccl.read, "# x\nallreduce,0,8,tree,simple,4,-1,8", 2, "past 8 bytes"),
        (nccl.read, "allreduce,0,8,Tree,simple,4,-1,8", 1, "Tree"),
        (nccl.read, "allreduce,4,8,tree,simple,4,-1,8", 1, "nothing matches"),
        (nccl.read, "allreduce,0,4611686018427387904,tree,simple,4,-1,-1", 1, "-1 ranks"),
        (nccl.read, "allreduce,0,4611686018427387904,tree,simple,4,-1,0", 1, "0 ranks"),
        (nccl.read, "allreduce,0,4611686018427387904,tree,simple,4,2,8", 1, "for some nodes"),
        (nccl.read, "allreduce,0,4611686018427387904,tree,simple,4,-1,8,3,-1", 1, "for some nodes"),
        (nccl.read, "allreduce,0,8,tree,simple,4,-1,8," + " " * 300, 1, "reads 255"),
    ],
)  # fmt: skip
def test_malformed(read, text, line, word):
    with pytest.raises(MalformedError) as error:
        read(text)
    assert (error.value.line, word in error.value.reason) == (line, True), str(error.value)


def damaged(change: Callable[[dict], object]) -> str:
    tree = json.loads(mpich.write({"allreduce": (Band(2, 4, (Rule(0, "tree"), Rule(64, "ring"))),)}, BASE))
    change(tree)
    return json.dumps(tree)


def band(tree: dict) -> dict:
    return tree["collective=allreduce"]["comm_type=intra"]["comm_size<=4"]["is_op_built_in=yes"]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda tree: tree.pop("collective=barrier"), "whole table"),
        (lambda tree: band(tree).pop("avg_msg_size=any"), "is the last"),
        (lambda tree: band(tree).update({"avg_msg_size=any": {}}), "something in it"),
        (lambda tree: band(tree).update({"avg_msg_size<8": band(tree)["avg_msg_size=any"]}), "never reached"),
        (
            lambda tree: band(tree)["avg_msg_size<=63"].update({"algorithm=MPIR_Allreduce_intra_tree": {}}),
            "needs tree_type",
        ),
        (lambda tree: band(tree).update({"avg_msg_size=any": {"algorithm=MPIR_Allreduce_intra_rign": {}}}), "no rign"),
        (lambda tree: tree.update({"allreduce": {}}), "no collective=NAME"),
        (lambda tree: band(tree).update({"avg_msg_sise<=8": OWN, "any": OWN}), "never reached"),
    ],
)
def test_malformed_for_mpich(change, word):
    with pytest.raises(MalformedError, match=word):
        mpich.read(damaged(change))


def test_mpich_guards_what_needs_an_element_a_rank():
    text = mpich.write({"allreduce": (Band(2, 4, (Rule(0, "reduce_scatter_allgather"),)),)}, BASE)
    leaf = band(json.loads(text))["avg_msg_size=any"]
    assert list(leaf) == ["count<pow2", "count=any"]
    assert len(text) % 4096


def test_bands_of_ranks():
    low, high = (Rule(0, "ring"),), (Rule(0, "linear"),)
    assert bands({4: low, 8: high}) == (Band(4, 7, low), Band(8, 16, high))
    assert bands({2: low, 3: low}) == (Band(2, 6, low),)


def test_only_what_is_surely_faster():
    one = {(0,): (1.0, 0.9, 1.1)}
    assert surely_faster(one, {(0,): (1.3, 1.2, 1.4)})
    assert not surely_faster(one, {(0,): (1.3, 1.05, 1.4)})  # the intervals meet
    assert not surely_faster(one, {(0,): (1.04, 1.2, 1.4)})
    two = {(0,): (1.0, 0.5, 2.0), (1,): (1.0, 0.5, 2.0)}
    assert surely_faster(two, {(0,): (1.2, 0.5, 2.0), (1,): (1.1, 0.5, 2.0)})
    assert not surely_faster(two, {(0,): (1.5, 0.5, 2.0), (1,): (0.99, 0.5, 2.0)})  # not in each launch


def test_names_of_other_files():
    assert resolve("2. Rabenseifner's", INTEL) == "rabenseifner"
    assert resolve("10. Topology aware SHM-based flat", INTEL) == "topology-aware SHM flat"
    assert resolve("3", OPENMPI["allreduce"]) == "recursive_doubling"
    assert resolve("2. Rabenseifner's", OPENMPI["allreduce"]) is None  # another library's number
    assert resolve("fast", INTEL) is None


def export(*argv: str) -> int:
    return main(["export", *argv])


def test_from_measured_algorithms(tmp_path, capsys):
    forced = {"ring": 1.2, "rabenseifner": 0.8, "segmented_ring": 0.9, "unheard_of": 0.1}
    runs = [run_file(tmp_path / f"{i}.jsonl", 4, launch=i, library="Open MPI v5.0.11", forced=forced) for i in (1, 2)]
    file = tmp_path / "rules"
    assert export(*runs, "--for", "openmpi5", "-o", str(file)) == 0
    assert openmpi.read(file.read_text(), 5) == {"allreduce": (Band(4, 8, (Rule(0, "rabenseifner"),)),)}
    said = capsys.readouterr().err
    assert "measured: 32 cells of 2 launches on Open MPI v5.0.11" in said
    assert f"dynamic_rules_filename={file}" in said
    assert "measured" in file.read_text()


def test_the_default_stays_where_nothing_beats_it(tmp_path, capsys):
    run = run_file(tmp_path / "a", library="Open MPI v5.0.11", forced={"ring": 1.29}, default=1.3)
    assert export(run, "--for", "openmpi5") == 0
    out, said = capsys.readouterr()
    assert openmpi.read(out, 5) == {}
    assert "changes nothing" in said


@pytest.mark.parametrize("target", ["openmpi4", "openmpi6", "intel", "nccl"])
def test_from_the_model_and_marked_so(tmp_path, capsys, target):
    runs = [run_file(tmp_path / f"{p}", p) for p in (2, 4)]
    assert export(*runs, "--for", target, *(["--channels", "4"] if target == "nccl" else [])) == 0
    out, said = capsys.readouterr()
    assert "from the model, not measured" in said
    assert target == "openmpi6" or "from the model, not measured" in out  # JSON has no comments
    assert ("1:0-" if target == "intel" else "ring") in out


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        (("--for", "nccl"), "--channels"),
        (("--for", "intel", "--recheck"), "-o FILE"),
        (("--for", "intel", "--recheck", "-o", "new"), "cannot run under"),
        (("--for", "mpich", "--base", "nothing"), "No such file"),
        (("--for", "openmpi5", "--launches", "0"), "at least 1"),
        (("--for", "openmpi5", "-o", "."), "exists"),
    ],
)
def test_bad_options(tmp_path, capsys, argv, word):
    assert export(run_file(tmp_path / "a"), *argv) == 2
    said = capsys.readouterr().err
    assert word in said
    assert said.count("\n") == 1


def test_nothing_to_go_by(tmp_path, capsys):
    (tmp_path / "osu.txt").write_text(
        "# OSU MPI Allreduce Latency Test v5.9\n# Size  Avg Latency(us)\n4   1.5\n8   1.6\n"
    )
    assert export(str(tmp_path / "osu.txt"), "--size", "4", "--for", "openmpi5") == 2
    assert "--baselines all" in capsys.readouterr().err
