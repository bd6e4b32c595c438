"""mpi4py's own tests of the calls that are ours, with our Comm: run.py --keep FOLDER -- mpirun.

They come with the source distribution of the mpi4py that is installed, which is fetched to FOLDER once. The exit status
is not 0 when a run on any number of ranks fails; ``rank.py`` says when it does.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "mpi"))
from launch import run  # noqa: E402

RANKS = 1, 2, 3, 5, 8
LIMIT_S = 600  # of a run


def fetch(folder: Path) -> Path:
    """The folder of the installed version's tests. CalledProcessError: pip could not fetch them."""
    name = f"mpi4py-{version('mpi4py')}"
    tests = folder / name / "test"
    if not tests.is_dir():
        wanted = ["--no-deps", "--no-binary", "mpi4py", name.replace("-", "==")]  # pip asks it for its metadata alone
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(folder), *wanted], check=True)
        with tarfile.open(folder / f"{name}.tar.gz") as archive:
            files = [file for file in archive if file.name.startswith(f"{name}/test/")]
            safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # not in Python 3.11.2
            # Whole or not at all: what a run that was killed leaves is not taken for the tests.
            with tempfile.TemporaryDirectory(dir=folder) as half:
                archive.extractall(half, files, **safe)
                shutil.rmtree(folder / name, ignore_errors=True)
                Path(half, name).rename(folder / name)
    return tests


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, required=True, metavar="FOLDER", help="where the fetched files are")
    parser.add_argument("-n", "--ranks", type=int, nargs="+", default=RANKS)
    parser.add_argument("mpirun", nargs="+", help="the launcher and its options")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # what is launched must go too
    tests, bad = fetch(args.keep), []
    for ranks in args.ranks:
        began = time.monotonic()
        program = [sys.executable, "-m", "mpi4py", str(Path(__file__).with_name("rank.py")), str(tests)]
        status, _ = run([*args.mpirun, "-n", str(ranks), *program], LIMIT_S, echo=True, ranks=ranks)
        print(f"mpi4py's tests on {ranks} ranks: status {status}, {time.monotonic() - began:.0f} s", flush=True)
        if status != 0:
            bad.append(ranks)
    print(f"mpi4py's tests: {f'failed on {bad} ranks' if bad else 'passed'}", flush=True)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
