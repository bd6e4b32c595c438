"""``--recheck``: the bench under the file and without it, in turns; a launch is the unit, and a ratio needs both."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import t as student

from ..facts import facts
from ..load import load
from ..progress import bar
from ..samples import RefusedError
from .options import Target

LIMIT_S = 300  # for one launch
# A plan of ours, which the file cannot touch, in the same iterations: what it gains or loses is the machine's noise,
# and the library's call is judged against it.
CONTROL = {"allreduce": "recursive_doubling", "reduce": "binomial_tree", "bcast": "binomial_tree"}
CONTROL |= dict.fromkeys(("allgather", "reduce_scatter", "reduce_scatter_block"), "ring")
# How the bench is made to time a call: reduce_scatter's own is the one that works in place.
BENCH = {"reduce_scatter": ("reduce_scatter", "--in-place"), "reduce_scatter_block": ("reduce_scatter",)}


def recheck(
    target: Target, file: str, sizes: Sequence[int], span: tuple[int, int], launches: int, calls: Sequence[str]
) -> int:
    """Run pairs of launches at each number of ranks; print default / tuned. 1: at none of them does it help.

    Ratios are against CONTROL: above 1 the file helps. The verdict is by the 95 % interval over pairs.
    """
    settings = dict(pair.split("=", 1) for pair in shlex.split(target.use.format(file=Path(file).resolve())))
    helped = False
    for call in calls:
        for size in sizes:
            helped |= _size(target, settings, call, size, span, launches)
    print(f"{file} {'helps' if helped else 'does not help here: do not use it'}")
    return 0 if helped else 1


def _size(target: Target, settings: dict[str, str], call: str, size: int, span: tuple[int, int], launches: int) -> bool:
    tables = []
    with tempfile.TemporaryDirectory() as folder, bar() as show:
        for pair in range(launches):
            # Now one first, now the other: a machine that warms up favours neither.
            for tuned in (False, True) if pair % 2 == 0 else (True, False):
                show(pair / launches, f"{size} ranks, {'tuned' if tuned else 'default'}")
                path = os.path.join(folder, f"{pair}-{'tuned' if tuned else 'default'}.jsonl")
                _launch(call, size, span, settings if tuned else {}, path)
                library = facts([path])[0].mpi_library
                if target.library not in library:
                    raise RefusedError(
                        "--recheck", None, f"mpirun on PATH is {library}: the file is for {target.title}"
                    )
                tables.append(load([path]).assign(pair=pair, tuned=tuned))
    table = pd.concat(tables)
    theirs = _ratios(table[(table["library"] == "mpi") & (table["call"] == "call")])
    control = _ratios(table[table["library"] == "mpicoll"])
    sizes = [nbytes for nbytes in theirs if nbytes in control]
    if not sizes:
        raise RefusedError("--recheck", None, f"{call} on {size} ranks: no size was measured in all launches")
    print(f"{call}, {size} ranks, {launches} pairs of launches: time by default / under the file")
    net = {nbytes: theirs[nbytes] / control[nbytes] for nbytes in sizes}
    for nbytes in sizes:
        print(
            f"  {nbytes:>10} bytes {_of(net[nbytes])}; as timed {_of(theirs[nbytes])}, control {_of(control[nbytes])}"
        )
    means = np.mean([np.log(net[nbytes]) for nbytes in sizes], axis=0)  # one figure a pair
    low, high = _interval(means)
    verdict = "it helps" if low > 1 else "it harms" if high < 1 else "it cannot be told from the default"
    print(f"  all sizes: {np.exp(means.mean()):.2f}x ({_span(low, high)}): {verdict}")
    return low > 1


def _launch(call: str, size: int, span: tuple[int, int], settings: dict[str, str], path: str) -> None:
    """One run of the bench. RefusedError: no launcher, or a run that fails."""
    launcher = shutil.which("mpirun")
    if not launcher:
        raise RefusedError("--recheck", None, "no mpirun on PATH")
    bench = ["-m", "mpicoll.bench", "--algorithms", CONTROL[call], "--max-time", "20"]
    bench += ["--collective", *BENCH.get(call, (call,))]
    bench += ["-b", str(span[0]), "-e", str(span[1]), "-f", "4", "-J", path]
    child = subprocess.Popen(
        [launcher, "-n", str(size), sys.executable, *bench],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=os.environ | settings,
        start_new_session=True,
    )
    try:
        _, said = child.communicate(timeout=LIMIT_S)
    except BaseException as error:  # the launcher's own children too, also on Ctrl-C
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        raise RefusedError("--recheck", None, f"the bench did not end in {LIMIT_S} s on {size} ranks") from None
    if child.returncode:
        under = "under the file" if settings else "without the file"
        last = (said.strip().splitlines() or ["it says nothing"])[0]
        raise RefusedError("--recheck", None, f"the bench fails {under}, status {child.returncode}: {last}")


def _ratios(rows: pd.DataFrame) -> dict[int, np.ndarray]:
    """Bytes -> default / tuned of each pair."""
    found: dict[int, np.ndarray] = {}
    for nbytes, part in rows.groupby("nbytes"):
        cells = part.groupby(["pair", "tuned"])["time_us"].median().unstack()
        if {True, False} <= set(cells.columns) and not cells.isna().to_numpy().any():
            found[int(nbytes)] = (cells[False] / cells[True]).to_numpy()
    return found


def _of(ratios: np.ndarray) -> str:
    return f"{np.exp(np.mean(np.log(ratios))):5.2f}x ({min(ratios):.2f} to {max(ratios):.2f})"


def _interval(logs: np.ndarray) -> tuple[float, float]:
    """95 % interval of the mean ratio; without end where there is one launch."""
    n = len(logs)
    if n < 2:
        return 0.0, float("inf")
    half = student.ppf(0.975, n - 1) * logs.std(ddof=1) / np.sqrt(n)
    return float(np.exp(logs.mean() - half)), float(np.exp(logs.mean() + half))


def _span(low: float, high: float) -> str:
    return "one pair: no interval" if high == float("inf") else f"95 %: {low:.2f} to {high:.2f}"
