"""MPICH's selection file (MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE): a tree of tests, the first true one is taken.

The file replaces the whole built-in table: a collective that it lacks ends the job in MPI_Init. So the library's own
table (``base``, from the library itself or from the generic.json of its source) is carried along, with allreduce
changed; wherever the advice is DEFAULT the library's own tests stand. Algorithms are given all their parameters
(names.MPICH). Tests of ranks come first and use only <=.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .advice import DEFAULT, Band, Calls, Rule, checked
from .json_text import Document
from .malformed import MalformedError
from .names import MPICH

Tree = dict[str, Any]
INT_MAX = 2**31 - 1  # thresholds go through atoi
_PREFIX = "algorithm=MPIR_Allreduce_intra_"
_CALL = "collective=allreduce"
# Whatever a program calls: without one of them MPI_Init or the call itself ends the job.
NEEDED = (
    *("allgather", "allgatherv", "allreduce", "alltoall", "alltoallv", "alltoallw", "barrier", "bcast", "exscan"),
    *("gather", "gatherv", "reduce", "reduce_scatter", "reduce_scatter_block", "scan", "scatter", "scatterv"),
)
_NUMBER = r"(0|[1-9]\d*)"
_BOOLEAN = re.compile(
    r"comm_type=(intra|inter)|comm_hierarchy=(parent|node_roots|node|flat)"
    r"|is_(node_consecutive|commutative|op_built_in|sendbuf_inplace|block_regular|multi_threaded)=(yes|no)"
)
_TEST = re.compile(
    rf"comm_size=(pow2|node_comm_size)|count<pow2|(comm_size|comm_avg_ppn|avg_msg_size|total_msg_size)<=?{_NUMBER}"
    rf"|count<={_NUMBER}"
)
_ANY = re.compile(r"any|\w+=any")


def write(calls: Calls, base: Tree) -> str:
    """The file. Rules from 2 GiB on are left out. ValueError: a call or an algorithm that it cannot have."""
    checked(calls)
    if set(calls) - {"allreduce"}:
        raise ValueError(f"for MPICH only allreduce is written, not {', '.join(sorted(set(calls) - {'allreduce'}))}")
    own = base[_CALL]["comm_type=intra"]
    tests: Tree = {}
    free = 1
    for band in calls.get("allreduce", ()):
        if band.first > free:
            tests[f"comm_size<={band.first - 1}"] = own
        tests["comm_size=any" if band.last is None else f"comm_size<={band.last}"] = _by_bytes(band.rules, own)
        free = INT_MAX if band.last is None else band.last + 1
    if free < INT_MAX:
        tests["comm_size=any"] = own
    tree = {call: {**node, "comm_type=intra": tests} if call == _CALL else node for call, node in base.items()}
    text = json.dumps(tree, indent=1) + "\n"
    return text if len(text) % 4096 else text + "\n"  # it is mapped into memory: a whole page would have no end


def _by_bytes(rules: tuple[Rule, ...], own: Tree) -> Tree:
    """Operations of the user's own keep the library's tests."""
    ends = [rule.nbytes - 1 for rule in rules[1:]]
    tests: Tree = {}
    for rule, last in zip(rules, [*ends, None]):
        within = last is not None and last <= INT_MAX
        tests[f"avg_msg_size<={last}" if within else "avg_msg_size=any"] = _leaf(rule.algorithm, own)
        if not within:
            break
    return {"is_op_built_in=no": own, "is_op_built_in=yes": tests}


def _leaf(algorithm: str, own: Tree) -> Tree:
    if algorithm == DEFAULT:
        return own
    if algorithm not in MPICH:
        raise ValueError(f"MPICH has no {algorithm} for allreduce: {', '.join(MPICH)}")
    leaf: Tree = {_PREFIX + algorithm: {f"{key}={value}": {} for key, value in MPICH[algorithm].items()}}
    if algorithm != "reduce_scatter_allgather":
        return leaf
    return {"count<pow2": {_PREFIX + "recursive_doubling": {}}, "count=any": leaf}  # it needs an element a rank


def read(text: str) -> Calls:
    """What the file says of allreduce; all of it is checked. MalformedError: what would end the job or mislead it."""
    document = Document(text)
    top = document.value
    if not isinstance(top, dict):
        document.refuse(top, "no object")
    for key, node in top.items():
        if not re.fullmatch(r"collective=\w+", key):
            document.refuse(top, f"{key!r} is no collective=NAME")
        _check(document, top, node)
    missing = [name for name in NEEDED if f"collective={name}" not in top]
    if missing:
        document.refuse(top, f"no collective={missing[0]}: the file replaces the whole table, and the job would end")
    return _advice(top[_CALL].get("comm_type=intra", {}))


def _check(document: Document, above: Tree, node: Any) -> None:
    """One level of tests, or a leaf."""
    if not isinstance(node, dict) or not node:
        document.refuse(above, "every value is an object with something in it")
    if any(key.startswith(("algorithm=", "composition=")) for key in node):
        _check_leaf(document, node)
        return
    for i, (key, below) in enumerate(node.items()):
        last = i == len(node) - 1
        if _ANY.fullmatch(key):
            if not last:
                document.refuse(node, f"{key!r} comes before the last, and what follows is never reached")
        elif _TEST.fullmatch(key):
            if last:
                document.refuse(node, f"{key!r} is the last: nothing is said where it does not hold")
        elif not _BOOLEAN.fullmatch(key):
            document.refuse(node, f"unknown key {key!r}")
        if (number := re.search(r"\d+$", key)) and int(number[0]) > INT_MAX:
            document.refuse(node, f"{key!r}: the number does not fit an int")
        _check(document, node, below)


def _check_leaf(document: Document, node: Tree) -> None:
    (key, parameters), *more = node.items()
    if more:
        document.refuse(node, f"{more[0][0]!r} beside {key!r}: a leaf has one key")
    if not re.fullmatch(r"(algorithm|composition)=\w+", key) or not isinstance(parameters, dict):
        document.refuse(node, f"{key!r} is no algorithm with an object of parameters")
    if any(value != {} for value in parameters.values()):
        document.refuse(node, f"{key!r}: parameters stand side by side, each with {{}}; what lies deeper is not read")
    name = key.removeprefix(_PREFIX)
    if name in MPICH and key.startswith(_PREFIX):
        given = [parameter.partition("=")[0] for parameter in parameters]
        if sorted(given) != sorted(MPICH[name]):
            document.refuse(
                node, f"{name} needs {', '.join(MPICH[name]) or 'no parameters'}: others, or none, mislead it"
            )
    elif key.startswith(_PREFIX) and name not in ("smp", "ccl"):
        document.refuse(node, f"MPICH has no {name} for allreduce: {', '.join(MPICH)}")


def _advice(tests: Tree) -> Calls:
    bands, free = [], 1
    for key, node in tests.items():
        if not re.fullmatch(rf"comm_size(<={_NUMBER}|=any)", key):
            return {}  # a table that did not come from here: by bytes first, or by powers of two
        last = None if key.endswith("any") else int(key.partition("<=")[2])
        rules = _rules(node)
        if rules and any(rule.algorithm != DEFAULT for rule in rules):
            bands.append(Band(free, last, rules))
        free = 0 if last is None else last + 1
    return {"allreduce": tuple(bands)} if bands else {}


def _rules(node: Tree) -> tuple[Rule, ...]:
    if set(node) != {"is_op_built_in=no", "is_op_built_in=yes"}:
        return ()
    own, found, first = node["is_op_built_in=no"], list[Rule](), 0
    for key, leaf in node["is_op_built_in=yes"].items():
        inner = leaf.get("count=any", leaf)
        name = DEFAULT if leaf == own else next(iter(inner)).removeprefix(_PREFIX)
        found.append(Rule(first, name))
        first = int(key.partition("<=")[2] or 0) + 1
    return tuple(found)


def base_table(path: str) -> Tree:
    """MPICH's own table: from its library, which holds it as text, or from a generic.json. ValueError: none there."""
    raw = Path(path).read_bytes()
    texts = _texts(raw) if b"\0" in raw else iter([raw])
    for text in texts:
        if b"MPIR_Allreduce_intra_" in text:
            try:
                read(text.decode())
            except (MalformedError, UnicodeDecodeError) as error:
                raise ValueError(f"{path}: the table in it is not understood: {error}") from None
            return json.loads(text)
    raise ValueError(f"{path}: no selection table of MPICH in it")


def _texts(raw: bytes) -> Iterator[bytes]:
    """The strings of a library that look like a table."""
    at = -1
    while (at := raw.find(b'\0{"collective=', at + 1)) >= 0:
        yield raw[at + 1 : raw.index(b"\0", at + 1)]


def own_library() -> str | None:
    """The libmpi beside the mpirun on PATH, if it is an MPICH with a table in it."""
    launcher = shutil.which("mpirun")
    top = Path(launcher).resolve().parent.parent if launcher else Path("/nonexistent")
    for pattern in ("lib*/libmpi.so.*", "lib*/libmpich.so.*", "lib*/*/libmpich.so.*"):
        for path in sorted(top.glob(pattern)):
            if b"MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE" in path.read_bytes():
                return str(path)
    return None
