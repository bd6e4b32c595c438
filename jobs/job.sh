# shellcheck shell=bash disable=SC2153,SC2154 # set by the script that submit.sh writes
# One job: looks at what it got, starts the ranks once to count them, then runs whole launches. Bash; sourced.
name="mpicoll job"
# shellcheck source=common.sh
. "$ROOT/jobs/common.sh"
cd "$ROOT" || exit 2

[ -n "${SLURM_JOB_ID:-}" ] || stop "no SLURM_JOB_ID: this runs inside a job; submit it by jobs/submit.sh"
[ -d "$DIR" ] || stop "no directory $DIR on this node: the clone must be on a file system that all nodes share"
job=$SLURM_JOB_ID nodes=$NODES
if [ "$AS" = array ]; then # the index is the number of nodes to use; the job number of one task is that of all
    nodes=${SLURM_ARRAY_TASK_ID:?} job=${SLURM_ARRAY_JOB_ID:?}_$nodes
fi
p=$((nodes * RANKS_PER_NODE)) tag=$job-p$((nodes * RANKS_PER_NODE))

# What came is what was asked for.
asked=$((NODES * RANKS_PER_NODE))
[ "${SLURM_JOB_NUM_NODES:-$NODES}" -eq "$NODES" ] ||
    stop "$SLURM_JOB_NUM_NODES nodes came, $NODES were asked for: Slurm changed the request; see scontrol show job $SLURM_JOB_ID"
[ "${SLURM_NTASKS:-$asked}" -eq "$asked" ] ||
    stop "$SLURM_NTASKS ranks are allowed, $asked were asked for: Slurm changed the request; see scontrol show job $SLURM_JOB_ID"

load_modules
shopt -s nullglob # after the modules: their functions are not made for it
set -o noclobber  # a result that is there is never written over
# Open MPI's mpirun, 5 and 4: so many ranks a node, whatever the submitting shell was set to. Its own default fills the
# first node when more ranks than cores are allowed.
policy=ppr:$RANKS_PER_NODE:node
[ "$CORES_PER_RANK" -eq 0 ] || policy+=:PE=$CORES_PER_RANK
export PRTE_MCA_rmaps_default_mapping_policy="$policy" OMPI_MCA_rmaps_base_mapping_policy="$policy"
for pair in "${EXPORTS[@]}"; do
    # shellcheck disable=SC2163 # NAME=VALUE
    export "$pair"
done
export MPICOLL_NIC="$NIC" MPICOLL_HIDE_GPUS="$HIDE_GPUS"
unset SLURM_EXPORT_ENV # set by sbatch --export=NONE: srun would hand none of this to the ranks
[ -x "$(command -v "$PYTHON")" ] || stop "no $PYTHON on this node: make venv MPI=system, or --python PATH"
case $PYTHON in */*) PATH=${PYTHON%/*}:$PATH ;; esac # the launcher beside it is of the same MPI

if [ "$KIND" = gpu ]; then
    has_cuda "$PYTHON" || stop "this version has no device buffers (--device cuda): kind gpu can not run"
fi
words launcher "$LAUNCH"
command -v "${launcher[0]}" >/dev/null || stop "no ${launcher[0]} on PATH: set MPICOLL_LAUNCH, MPICOLL_MODULES or --python"

case ${launcher[0]##*/} in
    srun)
        launcher+=(--nodes="$nodes" --ntasks="$p" --ntasks-per-node="$RANKS_PER_NODE")
        # Since 22.05 srun does not take it from the job.
        [ "$CORES_PER_RANK" -eq 0 ] || launcher+=(--cpus-per-task="$CORES_PER_RANK")
        [ -z "$CPU_BIND" ] || launcher+=(--cpu-bind="$CPU_BIND")
        [ -z "$GPU_BIND" ] || launcher+=(--gpu-bind="$GPU_BIND")
        launcher+=(--distribution=block:block --kill-on-bad-exit=1)
        ;;
    *)
        launcher+=(-n "$p")
        # mpirun starts one daemon a node by srun: it has all cores, not those of one rank, and no warning.
        unset SLURM_NTASKS_PER_NODE SRUN_CPUS_PER_TASK
        ;;
esac
words flags "$LAUNCH_FLAGS"
launcher+=("${flags[@]}")

# The time limit comes: the ranks get a signal and close their run file, and no launch follows. Launchers answer SIGTERM
# by killing their ranks at once, Open MPI's after a fifth of a second: so srun's ranks are told by scancel, which leaves
# this script alone, and those of others by SIGUSR1, which is handed on. timeout, in whose group they are, ignores it.
TELL_LIMIT=10 # seconds
ended='' child='' teller=''
trap '' USR1
end() {
    ended=1
    echo "$name: SIGTERM, near the time limit or by scancel: the ranks are told to end" >&2
    [ -n "$child" ] || return 0
    case ${launcher[0]##*/} in
        srun) scancel --signal=TERM "$job" || kill -TERM "$child" ;;
        *)
            kill -USR1 -- "-$child" || true # it may be ending, or just begun
            { sleep $TELL_LIMIT >/dev/null 2>&1 && kill -TERM "$child"; } &
            teller=$!
            ;;
    esac
}
trap end TERM

# The run file of launch $id.
id=''
run_file() { grep -lF "\"launch\":\"$id\"" "$DIR"/*.jsonl /dev/null | head -n 1 || true; }

# overstays LAUNCHER: launchers have hung after their ranks had ended: one that is there STAY_LIMIT seconds after its run
# file was closed is ended. Its sleep outlives it, and holds no output open that somebody reads to the end.
overstays() {
    local file
    while sleep 2 >/dev/null 2>&1; do
        file=$(run_file)
        if [ -n "$file" ] && complete "$file" "$p"; then
            sleep "$STAY_LIMIT" >/dev/null 2>&1
            echo "$name: the launcher did not end though its run file is whole: it is ended" >&2
            kill -TERM "$1"
            return
        fi
    done
}

# launch LIMIT COMMAND...: run it on all ranks and wait; sets status. After LIMIT seconds (0: none) it is ended: status 124.
launch() {
    local watcher
    timeout --kill-after=15 "$1" "${launcher[@]}" "$ROOT/jobs/place.sh" "${@:2}" &
    child=$! status=0
    overstays "$child" & watcher=$!
    wait "$child" || status=$?
    while kill -0 "$child" 2>/dev/null; do # a signal ends wait, not the launcher
        status=0
        wait "$child" || status=$?
    done
    child=''
    kill "$watcher" ${teller:+"$teller"} 2>/dev/null || true
}

# facts NAME COMMAND...: what a command says of this machine, where there is such a command.
facts() {
    command -v "$1" >/dev/null || return 0
    printf '\n## %s\n' "$*"
    timeout 30 "$@" 2>&1 || true
}
{
    echo "# $KIND on $SITE, job $SLURM_JOB_ID, node $(uname -n)"
    if type module >/dev/null 2>&1; then
        printf '\n## module -t list\n'
        module -t list 2>&1 || true
    fi
    facts scontrol show job "$job"
    case ${launcher[0]##*/} in srun | mpirun | mpiexec) facts "${launcher[0]}" --version ;; esac
    facts lscpu
    facts numactl -H
    facts nvidia-smi -q
    facts nvidia-smi topo -m
    facts ucx_info -v
    facts ibstat
    facts "$PYTHON" -c 'import importlib.metadata as m; print(*sorted(f"{d.name}=={d.version}" for d in m.distributions()), sep="\n")'
} >"$DIR/log/facts-$tag.txt"

# Start the ranks once, count them, and see where they are.
echo "$name: ${launcher[*]}"
came=$DIR/log/ranks-$tag.txt
MPICOLL_PLACE_SAY=1 launch $((START_LIMIT + 30)) timeout "$START_LIMIT" "$PYTHON" "$ROOT/jobs/ranks.py" >"$came"
[ -z "$ended" ] || stop "ended before the first launch" 1
count=$(grep -c '^mpicoll rank ' "$came" || true)
worlds=$(awk '/^mpicoll rank / { print $5 }' "$came" | sort -nu | tr '\n' ' ')
hosts=$(awk '/^mpicoll rank / { print $7 }' "$came" | sort -u | wc -l)
if [ "$status" -eq 124 ]; then
    stop "no start within $START_LIMIT s ($count of $p ranks came): the launcher and the MPI library do not meet; see srun --mpi=list and MPICOLL_LAUNCH"
elif [ "$count" -gt 1 ] && [ "$worlds" = "1 " ]; then
    stop "$count worlds of one rank, not one of $p: the launcher is of another MPI, or lacks the right --mpi; see srun --mpi=list and MPICOLL_LAUNCH"
elif [ "$count" -ne "$p" ] || [ "$worlds" != "$p " ]; then
    stop "$count of $p ranks came${worlds:+, in a world of ${worlds% }}: see the lines above, $came, and srun --mpi=list for MPICOLL_LAUNCH"
elif [ "$hosts" -ne "$nodes" ]; then
    stop "the ranks are on $hosts nodes, $nodes were asked for: see $came"
elif [ "$status" -ne 0 ]; then
    stop "the launcher ended with status $status though all $p ranks came: see the lines above"
fi
each=$(awk '/^mpicoll rank / { n[$7]++ } END { for (h in n) print n[h] }' "$came" | sort -n | uniq | tr '\n' ' ')
[ "$each" = "$RANKS_PER_NODE " ] || echo "$name: uneven: ${each% } ranks a node, not $RANKS_PER_NODE" >&2

# All ranks, since pairs that cannot talk and GPUs that are shared show only there.
sick=0
case $KIND in
    check) doctor=(--device cpu) ;;
    gpu) doctor=(--device cuda) ;;
    *) doctor=() ;;
esac
if [ ${#doctor[@]} -gt 0 ]; then
    if has "$PYTHON" mpicoll doctor; then
        launch "$START_LIMIT" "$PYTHON" -m mpicoll doctor "${doctor[@]}" >"$DIR/log/doctor-$tag.txt"
        cat "$DIR/log/doctor-$tag.txt"
        [ -z "$ended" ] || stop "ended before the first launch" 1
        sick=$status
        [ "$sick" -eq 0 ] || [ "$KIND" = check ] || stop "the doctor's checks failed (status $sick): see them above" 1
    else
        echo "$name: this version has no doctor; the launches follow"
    fi
fi

whole=0 wrong=0
for ((k = 1; k <= REPEATS; k++)); do
    [ -z "$ended" ] || break
    id=$tag-$k
    launch 0 "$PYTHON" -m mpicoll.bench "${BENCH[@]}" --max-time "$SECONDS_EACH" -J "$DIR" --launch "$id"
    file=$(run_file)
    if [ -z "$file" ]; then
        echo "$name: launch $k of $REPEATS left no run file (status $status)" >&2
    elif ! of_ranks "$file" "$p"; then
        stop "launch $k ran on other ranks than the $p that were asked for: see the first line of $file"
    elif complete "$file" "$p"; then
        whole=$((whole + 1))
    else
        echo "$name: launch $k of $REPEATS stopped early (status $status); its rows are in $file" >&2
    fi
    case $status in
        1) [ -n "$ended" ] || wrong=1 ;; # mpirun's status too when its ranks were told to end
        2) break ;; # the bench refused: it would again
    esac
done

echo "$name: $whole of $REPEATS launches on $p ranks, $nodes nodes: $DIR"
[ "$sick" -eq 0 ] || stop "the doctor's checks failed (status $sick): see them above" 1
[ "$wrong" -eq 0 ] || stop "a launch ended with status 1: a wrong result or a failed rank; see the lines above" 1
[ "$whole" -eq "$REPEATS" ] || exit 1
