"""What importing mpicoll does not do, and the walls between its rooms (DESIGN.md 2)."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "mpicoll"
SOURCES = sorted(PACKAGE.rglob("*.py"))
ARRAYS_AND_MPI = {"mpi4py", "numpy", "cupy", "ml_dtypes", "torch"}


def imported(file: Path) -> set[str]:
    """Absolute names of the modules that a file imports, anywhere in it; those for type checkers alone left out."""
    tree = ast.parse(file.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []
    package = file.relative_to(ROOT).with_suffix("").parts[:-1]
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            names |= {module} | {f"{module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            names |= {arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)}
    return names


def roots(file: Path) -> set[str]:
    return {name.split(".")[0] for name in imported(file)}


def room(name: str) -> list[Path]:
    files = [file for file in SOURCES if PACKAGE / name in file.parents]
    assert files, f"no files in {name}"
    return files


@pytest.mark.parametrize(
    "use",
    [
        "import mpicoll",
        "import mpicoll; mpicoll.algorithms('allreduce')",
        "import mpicoll; assert mpicoll.verify(mpicoll.schedule('allreduce', 'ring', size=8)).ok",
        "import mpicoll; dir(mpicoll)",
        "import mpicoll\ntry: mpicoll.nonsense\nexcept AttributeError as e: assert 'nonsense' in str(e)",
    ],
)
def test_neither_mpi_nor_numpy_is_imported(use):
    check = f"import sys\n{use}\nprint(sorted(sys.modules.keys() & {ARRAYS_AND_MPI!r}))"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


@pytest.mark.parametrize("module", ["doctor.trial", "doctor.examine", "bench.__main__", "bench.memory"])
def test_a_program_that_takes_a_gpu_has_not_started_mpi(module):
    """MPI looks for what is near the GPU when it starts, and it starts when mpi4py.MPI is imported."""
    check = f"import sys, mpicoll.{module}\nprint('mpi4py.MPI' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert (done.stdout.strip(), done.stderr) == ("False", "")


def test_all_public_names_are_there():
    check = "import mpicoll\nprint([n for n in mpicoll.__all__ if not hasattr(mpicoll, n) or n not in dir(mpicoll)])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


@pytest.mark.parametrize("name", ["schedule", "algorithms"])
def test_the_pure_rooms_import_neither_mpi_nor_arrays(name):
    for file in room(name):
        assert not roots(file) & ARRAYS_AND_MPI, file


def test_algorithms_import_only_schedule():
    for file in room("algorithms"):
        ours = {name for name in imported(file) if name.startswith("mpicoll")}
        assert all(name.split(".")[:2] == ["mpicoll", "schedule"] for name in ours), (file, ours)
        assert roots(file) - {"mpicoll"} <= set(sys.stdlib_module_names), file


def test_runtime_and_schedule_name_no_algorithm_module():
    # The registry loads the package by its name; modules of it are found by listing, never named.
    for file in room("runtime") + room("schedule") + [PACKAGE / "__init__.py"]:
        named = {name for name in imported(file) if name.startswith("mpicoll.algorithms")}
        assert named <= {"mpicoll.algorithms"}, (file, named)
    for file in room("runtime"):
        assert not any(name.startswith("mpicoll.algorithms") for name in imported(file)), file


def test_schedule_does_not_look_up():
    for file in room("schedule"):
        ours = {name for name in imported(file) if name.startswith("mpicoll")}
        assert all(name.startswith(("mpicoll.schedule", "mpicoll.algorithms")) for name in ours), (file, ours)


def test_analysis_imports_no_mpi():
    for file in (ROOT / "analysis").rglob("*.py"):
        assert not roots(file) & {"mpi4py"}, file


def test_nothing_imports_the_bench():
    for file in [*SOURCES, *(ROOT / "analysis").rglob("*.py")]:
        if PACKAGE / "bench" not in file.parents:
            assert not any(name.startswith("mpicoll.bench") for name in imported(file)), file


def test_no_job_is_aborted_before_what_was_said_is_read():
    for file in SOURCES:
        assert (".Abort(" in file.read_text()) == (file.name == "launcher.py"), file


def test_files_are_short():
    for file in [*SOURCES, *(ROOT / "tests").rglob("*.py"), *(ROOT / "analysis").rglob("*.py")]:
        limit = 80 if file.parent.name == "algorithms" else 300
        assert len(file.read_text().splitlines()) <= limit, file


def test_chance_decides_no_test():
    chance = re.compile(r"default_rng\(\)|Random\(\)|np\.random\.(?!default_rng)|settings\(.*(deadline|derandomize)=")
    for file in (ROOT / "tests").rglob("*.py"):
        assert not chance.search(file.read_text()), file
    assert settings.default.derandomize, "generated examples differ from run to run"
    assert settings.default.deadline is None


def test_imported_sees_what_it_must(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    file = tmp_path / "mpicoll" / "runtime" / "some.py"
    file.parent.mkdir(parents=True)
    file.write_text(
        "from ..algorithms import ring\nfrom . import cut\ndef f():\n    import mpicoll.bench.x\n"
        "    import_module('cupy')\nif TYPE_CHECKING:\n    import torch\n"
    )
    expected = {"mpicoll.algorithms", "mpicoll.algorithms.ring", "mpicoll.runtime", "mpicoll.runtime.cut"}
    assert imported(file) == expected | {"mpicoll.bench.x", "cupy"}
