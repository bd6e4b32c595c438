#!/usr/bin/env bash
# shellcheck disable=SC2015,SC2154 # in "a && b || stop" both are meant to stop; number and words set by name
# Submit the bench to Slurm:
#
#   jobs/submit.sh SITE KIND [options] [-- options of the bench]
#
# SITE    a file in jobs/sites: generic, perlmutter, frontier, juwels-booster, alps, leonardo, vista
# KIND    sweep     all sizes and algorithms, in one allocation
#         scaling   the same on 2, 4, 8, ... nodes, then a job that collects
#         gpu       as sweep, with CUDA buffers, one rank a GPU
#         check     what the machine is, and a health run of two minutes
#
# -A, --account NAME      -p, --partition NAME      -q, --qos NAME      -C, --constraint TEXT
# -t, --time LIMIT        minutes, or [D-]HH:MM:SS (default: what the launches need)
# -N, --nodes N           nodes; for scaling a list such as 2,4,8
#     --ranks-per-node N  --cores-per-rank N (0: not stated)  --gpus-per-node N
#     --repeats N         whole launches, one after the other
#     --seconds N         the bench's --max-time in each launch
#     --as chain|array    scaling: a job a size, each after the last (default), or one array whose every task holds the
#                         largest number of nodes and uses its own
#     --python PATH       the interpreter (default .venv-system/bin/python of this clone)
#     --dry-run           print the sbatch line and the script, submit nothing
#
# All of these, and the rest of a site's values, are variables too: jobs/README.md has the table.
set -euo pipefail
name=submit.sh
unset CDPATH # cd would look there, and print where it went
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=common.sh
. "$ROOT/jobs/common.sh"

LAUNCH_EXTRA_S=60 # start, calibration and checks of a launch, besides its seconds
STAY_LIMIT_S=30   # for a launcher to end after its run file was closed
START_LIMIT_S=300 # for the first start, which counts the ranks

usage() { sed -n '3,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

# number NAME WHAT VALUE LEAST MOST: sets NAME; 08 is 8, which a shell would take for octal.
number() {
    [[ $3 =~ ^[0-9]{1,9}$ ]] && [ "$((10#$3))" -ge "$4" ] && [ "$((10#$3))" -le "$5" ] ||
        stop "$2 $3: give a whole number from $4 to $5"
    printf -v "$1" %d "$((10#$3))"
}

# seconds LIMIT: of a time limit as sbatch reads it.
seconds() {
    if [[ $1 =~ ^[0-9]{1,6}$ ]]; then
        echo $((10#$1 * 60))
    elif [[ $1 =~ ^(([0-9]{1,3})-)?([0-9]{1,4}):([0-5][0-9]):([0-5][0-9])$ ]]; then
        echo $((10#0${BASH_REMATCH[2]} * 86400 + 10#${BASH_REMATCH[3]} * 3600 + 10#${BASH_REMATCH[4]} * 60 + 10#${BASH_REMATCH[5]}))
    else
        stop "--time $1: give minutes, or [D-]HH:MM:SS"
    fi
}

# quoted WORDS...: as a shell reads them again, plain words as they are.
quoted() {
    local word out=''
    for word; do
        [[ $word =~ ^[A-Za-z0-9_./:=,+@%-]+$ ]] || word="'${word//\'/\'\\\'\'}'"
        out+=" $word"
    done
    printf '%s' "${out# }"
}

site='' kind='' dry='' as='' bench=() given=()
declare -A option=()
while [ $# -gt 0 ]; do
    case $1 in
        --) shift; bench=("$@"); break ;;
        --*=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" ;;
    esac
    case $1 in
        -h | --help) usage; exit 0 ;;
        --dry-run) dry=1; shift; continue ;;
        -A | --account) to=MPICOLL_ACCOUNT ;;
        -p | --partition) to=MPICOLL_PARTITION ;;
        -q | --qos) to=MPICOLL_QOS ;;
        -C | --constraint) to=MPICOLL_CONSTRAINT ;;
        -t | --time) to=MPICOLL_TIME ;;
        -N | --nodes) to=MPICOLL_NODES ;;
        --ranks-per-node) to=MPICOLL_RANKS_PER_NODE ;;
        --cores-per-rank) to=MPICOLL_CORES_PER_RANK ;;
        --gpus-per-node) to=MPICOLL_GPUS_PER_NODE ;;
        --repeats) to=MPICOLL_REPEATS ;;
        --seconds) to=MPICOLL_SECONDS ;;
        --python) to=MPICOLL_PYTHON ;;
        --as) to=as ;;
        -*) stop "unknown option $1: --help lists them; the bench's own go after --" ;;
        *)
            if [ -z "$site" ]; then site=$1; elif [ -z "$kind" ]; then kind=$1; else given+=("$1"); fi
            shift
            continue
            ;;
    esac
    [ $# -ge 2 ] && [ -n "$2" ] && [[ $2 != -* ]] || stop "$1: give a value"
    option[$to]=$2
    shift 2
done

sites=$(cd "$ROOT/jobs/sites" && printf '%s\n' *.env | sed 's/\.env$//' | paste -sd ' ')
[ -n "$site" ] || stop "no site: one of $sites (--help shows the form)"
[[ $site =~ ^[A-Za-z0-9_-]+$ ]] && [ -r "$ROOT/jobs/sites/$site.env" ] ||
    stop "unknown site $site: one of $sites; a new one is a file jobs/sites/NAME.env"
[ -n "$kind" ] || stop "no kind: one of sweep, scaling, gpu, check"
case $kind in sweep | scaling | gpu | check) ;; *) stop "unknown kind $kind: one of sweep, scaling, gpu, check" ;; esac
[ ${#given[@]} -eq 0 ] || stop "${given[0]}: more than a site and a kind; the bench's own options go after --"

# shellcheck source=sites/generic.env
. "$ROOT/jobs/sites/$site.env"
for to in "${!option[@]}"; do printf -v "$to" %s "${option[$to]}"; done # they win, however the file sets its values
# What is not set yet.
: "${MPICOLL_ACCOUNT:=}" "${MPICOLL_PARTITION:=}" "${MPICOLL_QOS:=}" "${MPICOLL_CONSTRAINT:=}" "${MPICOLL_TIME:=}"
: "${MPICOLL_ACCOUNT_NEEDED:=0}" "${MPICOLL_SBATCH_FLAGS=--exclusive}" "${MPICOLL_GPU_REQUEST:=}" "${MPICOLL_GPU_BIND:=}"
: "${MPICOLL_LAUNCH:=mpirun}" "${MPICOLL_LAUNCH_FLAGS:=}" "${MPICOLL_MODULES:=}" "${MPICOLL_NIC:=auto}"
: "${MPICOLL_RANKS_PER_NODE:=2}" "${MPICOLL_CORES_PER_RANK:=0}" "${MPICOLL_GPUS_PER_NODE:=0}" "${MPICOLL_CPU_BIND:=}"
: "${MPICOLL_HIDE_GPUS:=0}" "${MPICOLL_EXPORT:=}" "${MPICOLL_EXPORT_GPU:=}" "${MPICOLL_NO_GPU:=}"
: "${MPICOLL_RESERVE:=90}" "${MPICOLL_PYTHON:=$ROOT/.venv-system/bin/python}"
case $MPICOLL_PYTHON in /*) ;; */*) MPICOLL_PYTHON=$PWD/$MPICOLL_PYTHON ;; esac # jobs run in $ROOT

case $kind in
    sweep) repeats=5 each=300 nodes=2 options=(-b 8 -e 256M --algorithms all --baselines all) ;;
    scaling) repeats=5 each=180 nodes=2,4,8 options=(-b 8 -e 64M --algorithms all --baselines all) ;;
    gpu) repeats=5 each=300 nodes=2 options=(--device cuda -b 8 -e 256M --algorithms all) ;;
    check) repeats=1 each=120 nodes=2 options=(-b 8 -e 16M) ;;
esac
nodes=${MPICOLL_NODES:-$nodes}
number repeats --repeats "${MPICOLL_REPEATS:-$repeats}" 1 1000
number reserve MPICOLL_RESERVE "$MPICOLL_RESERVE" 5 3600
number each --seconds "${MPICOLL_SECONDS:-$each}" 1 86400
number ranks --ranks-per-node "$MPICOLL_RANKS_PER_NODE" 1 1024
number cores --cores-per-rank "$MPICOLL_CORES_PER_RANK" 0 1024
number gpus --gpus-per-node "$MPICOLL_GPUS_PER_NODE" 0 64
number hide MPICOLL_HIDE_GPUS "$MPICOLL_HIDE_GPUS" 0 1
if [ "$kind" = scaling ]; then
    case ${as:=chain} in chain | array) ;; *) stop "--as $as: chain or array" ;; esac
    [[ $nodes =~ ^[0-9]+(,[0-9]+)*$ ]] || stop "--nodes $nodes: give a list such as 2,4,8"
else
    [ -z "$as" ] || stop "--as $as: only kind scaling has more than one job"
    [[ $nodes != *,* ]] || stop "--nodes $nodes: a list is for kind scaling; give one number"
fi
IFS=, read -r -a list <<<"$nodes"
most=0
for i in "${!list[@]}"; do
    number "list[i]" --nodes "${list[i]}" 1 100000
    [ "${list[i]}" -gt "$most" ] || stop "--nodes $nodes: give the numbers in rising order, each once"
    most=${list[i]}
done
if [ "$kind" = gpu ]; then
    [ -z "$MPICOLL_NO_GPU" ] || stop "$site: no kind gpu: $MPICOLL_NO_GPU"
    [ "$gpus" -gt 0 ] || stop "$site: no GPUs known: give --gpus-per-node N (and MPICOLL_GPU_REQUEST, what sbatch needs)"
    ranks=$gpus
fi
[ $((list[0] * ranks)) -gt 1 ] || stop "one rank has no peer: give more --nodes or --ranks-per-node"
[ "$MPICOLL_ACCOUNT_NEEDED" = 0 ] || [ -n "$MPICOLL_ACCOUNT${SBATCH_ACCOUNT:-}" ] ||
    stop "$site: no account: give --account NAME, or set MPICOLL_ACCOUNT"

[ "$kind" = gpu ] || MPICOLL_EXPORT_GPU=''
words exports "$MPICOLL_EXPORT $MPICOLL_EXPORT_GPU"
for pair in "${exports[@]}"; do
    [[ $pair =~ ^[A-Za-z_][A-Za-z0-9_]*= ]] || stop "MPICOLL_EXPORT: $pair is not NAME=VALUE (a value has no spaces)"
done

needed=$((START_LIMIT_S + repeats * (each + LAUNCH_EXTRA_S) + reserve))
limit=${MPICOLL_TIME:-$((START_LIMIT_S / 60 + (repeats * (2 * each + LAUNCH_EXTRA_S) + reserve + 59) / 60))}
limit_s=$(seconds "$limit")
least=$((repeats * each + LAUNCH_EXTRA_S + reserve))
[ "$limit_s" -ge "$least" ] ||
    stop "--time $limit: $repeats launches of $each s do not fit; give at least $(((needed + 59) / 60)) minutes, or fewer --repeats or --seconds"

stamp=$(date -u +%Y%m%dT%H%M%S)
dir=$ROOT/runs/$site/$stamp-$kind
if [ -z "$dry" ]; then
    command -v sbatch >/dev/null || stop "no sbatch on PATH: submit from a login node of a cluster with Slurm, or --dry-run"
    command -v "$MPICOLL_PYTHON" >/dev/null || stop "no $MPICOLL_PYTHON: make venv MPI=system, or give --python PATH"
    if [ "$kind" = gpu ] && ! (cd "$ROOT" && has_cuda "$MPICOLL_PYTHON"); then
        stop "this version has no device buffers (--device cuda): kind gpu can not run"
    fi
    mkdir -p "$ROOT/runs/$site"
    for ((n = 1; ; n++)); do # never a directory that is there
        mkdir "$dir" 2>/dev/null && break
        [ "$n" -lt 100 ] || stop "$dir: can not be made" 1
        dir=$ROOT/runs/$site/$stamp-$kind-$n
    done
    mkdir "$dir/log" # apart from the run files, so that the directory is what python -m analysis reads
fi

# arguments NODES RANKS JOB-NAME: what all jobs ask for.
arguments() {
    local more
    call=(sbatch --parsable "--job-name=$3" "--nodes=$1" "--ntasks=$2" "--time=$limit" --no-requeue)
    [ -z "$MPICOLL_ACCOUNT" ] || call+=("--account=$MPICOLL_ACCOUNT")
    [ -z "$MPICOLL_PARTITION" ] || call+=("--partition=$MPICOLL_PARTITION")
    [ -z "$MPICOLL_QOS" ] || call+=("--qos=$MPICOLL_QOS")
    [ -z "$MPICOLL_CONSTRAINT" ] || call+=("--constraint=$MPICOLL_CONSTRAINT")
    words more "$MPICOLL_SBATCH_FLAGS $MPICOLL_GPU_REQUEST"
    call+=("${more[@]}")
}

# submit NAME SCRIPT: print, or submit; sets job.
submit() {
    local told
    if [ -n "$dry" ]; then
        printf '%s <<%s\n%s\n%s\n\n' "$(quoted "${call[@]}")" "'END'" "$2" END
        job="JOB$((++dry_jobs))"
        return
    fi
    printf '%s\n' "$2" >"$dir/log/$1.sbatch"
    told=$("${call[@]}" <"$dir/log/$1.sbatch") || stop "sbatch refused: $(quoted "${call[@]}") <$dir/log/$1.sbatch" 1
    # Some sites' sbatch greets on the standard output first; a federation adds the cluster's name.
    job=$(grep -oE '^[0-9]+(;|$)' <<<"$told" | tail -n 1) || stop "sbatch gave no job number: $told" 1
    job=${job%;}
    echo "job $job: $1, $dir"
}

# script NODES AS: one job of ranks.
script() {
    cat <<SCRIPT
#!/usr/bin/env bash
# mpicoll, $kind on $site: $ranks ranks a node on $1 nodes, $repeats launches of $each s
set -euo pipefail
ROOT=$(quoted "$ROOT")
DIR=$(quoted "$dir")
SITE=$site
KIND=$kind
AS=$2
NODES=$1
RANKS_PER_NODE=$ranks
CORES_PER_RANK=$cores
REPEATS=$repeats
SECONDS_EACH=$each
START_LIMIT=$START_LIMIT_S
STAY_LIMIT=$STAY_LIMIT_S
PYTHON=$(quoted "$MPICOLL_PYTHON")
MODULES=$(quoted "$MPICOLL_MODULES")
LAUNCH=$(quoted "$MPICOLL_LAUNCH")
LAUNCH_FLAGS=$(quoted "$MPICOLL_LAUNCH_FLAGS")
CPU_BIND=$(quoted "$MPICOLL_CPU_BIND")
GPU_BIND=$(quoted "$MPICOLL_GPU_BIND")
NIC=$(quoted "$MPICOLL_NIC")
HIDE_GPUS=$hide
EXPORTS=($(quoted "${exports[@]}"))
BENCH=($(quoted "${options[@]}" "${bench[@]}"))
. "\$ROOT/jobs/job.sh"
SCRIPT
}

# ranks_job NODES RANKS NAME OUTPUT AS [FLAGS...]
ranks_job() {
    arguments "$1" "$2" "mpicoll-$3"
    call+=("--ntasks-per-node=$ranks")
    [ "$cores" -eq 0 ] || call+=("--cpus-per-task=$cores")
    call+=("--output=${dir//%/%%}/log/$4.out" "--signal=B:TERM@$reserve" "${@:6}")
    submit "$3" "$(script "$1" "$5")"
}

dry_jobs=0 jobs=()
if [ "$as" = array ]; then
    ranks_job "$most" $((most * ranks)) "$kind" %x-%A_%a array "--array=$(IFS=,; printf '%s' "${list[*]}")"
    jobs=("$job")
else
    for n in "${list[@]}"; do
        after=()
        [ ${#jobs[@]} -eq 0 ] || after=("--dependency=afterany:${jobs[-1]}")
        ranks_job "$n" $((n * ranks)) "$kind-p$((n * ranks))" %x-%j chain "${after[@]}"
        jobs+=("$job")
    done
fi
if [ "$kind" = scaling ]; then
    limit=10
    arguments 1 1 mpicoll-collect
    call+=("--output=${dir//%/%%}/log/%x-%j.out" "--dependency=afterany:$(IFS=:; printf '%s' "${jobs[*]}")")
    submit collect "#!/usr/bin/env bash
# mpicoll, scaling on $site: counts the launches of all sizes, then the report
set -euo pipefail
ROOT=$(quoted "$ROOT")
DIR=$(quoted "$dir")
PYTHON=$(quoted "$MPICOLL_PYTHON")
MODULES=$(quoted "$MPICOLL_MODULES")
NODE_COUNTS=(${list[*]})
RANKS_PER_NODE=$ranks
REPEATS=$repeats
. \"\$ROOT/jobs/collect.sh\""
fi
