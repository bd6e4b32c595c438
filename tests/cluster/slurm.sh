#!/usr/bin/env bash
# A real Slurm on one machine: a controller and the four hosts of hosts.sh as nodes h1 to h4, four CPUs each (root needed):
#
#   slurm.sh up [RATE]    start it, links of RATE (default 1gbit) both ways, and wait until all nodes are idle
#   slurm.sh rate RATE    give the links another rate
#   slurm.sh down         end it and remove every trace
#   slurm.sh try PYTHON   say what to type, with an interpreter that has mpi4py
#   slurm.sh missing      what is not there for it, in one line; nothing where it can run
#
# Its configuration, state, logs, munge socket and key are in /run/mpicoll-slurm77 (MPICOLL_NET=77, as for hosts.sh);
# the machine's own are neither read nor changed. . /run/mpicoll-slurm77/env lets a shell submit to it.
set -euo pipefail
unset CDPATH # cd would look there, and print where it went

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export MPICOLL_NET=${MPICOLL_NET:-77}
STATE=/run/mpicoll-slurm$MPICOLL_NET NET=10.$MPICOLL_NET.0 HOSTS=4
PACKAGES="slurmctld slurmd slurm-client munge libpmix2 iproute2 util-linux"
export SLURM_CONF=$STATE/slurm.conf

missing() {
    local absent=() tool probe=mpicoll$MPICOLL_NET-probe
    for tool in slurmctld slurmd sbatch munged ip tc nsenter unshare; do
        command -v $tool >/dev/null || absent+=("$tool")
    done
    if [ ${#absent[@]} -gt 0 ]; then
        echo "no ${absent[*]}: apt-get install --no-install-recommends $PACKAGES"
    elif [ "$(id -u)" != 0 ]; then
        echo "not root: network namespaces need it"
    elif ! ip netns add "$probe" 2>/dev/null || ! nsenter --net="/run/netns/$probe" unshare --uts --mount true 2>/dev/null; then
        ip netns delete "$probe" 2>/dev/null || true
        echo "no namespaces can be made here: the container needs CAP_SYS_ADMIN and CAP_NET_ADMIN"
    else
        ip netns delete "$probe"
    fi
}

configure() {
    local user
    user=$(id -un)
    mkdir -m 755 "$STATE"
    mkdir "$STATE/controller" "$STATE/log"
    (umask 077 && head -c 1024 /dev/urandom >"$STATE/munge.key")
    # The controller listens on all addresses of the machine: its port is not that of another controller.
    cat >"$SLURM_CONF" <<CONF
ClusterName=mpicoll$MPICOLL_NET
SlurmctldHost=$(uname -n)($NET.254)
SlurmctldPort=$((16000 + 10#$MPICOLL_NET))
SlurmdPort=6818
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$STATE/munge.socket
StateSaveLocation=$STATE/controller
SlurmdSpoolDir=$STATE/spool-%n
TmpFS=$STATE/tmp-%n
SlurmctldPidFile=$STATE/slurmctld.pid
SlurmdPidFile=$STATE/slurmd-%n.pid
SlurmctldLogFile=$STATE/log/slurmctld
SlurmdLogFile=$STATE/log/slurmd-%n
MailProg=/bin/true
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=2,bf_interval=2
EnforcePartLimits=ALL
ReturnToService=2
KillWait=5
MinJobAge=3600
CONF
    for n in $(seq $HOSTS); do
        mkdir "$STATE/spool-h$n" "$STATE/tmp-h$n" # PMIx servers must not meet in one directory
        echo "NodeName=h$n NodeHostname=h$n NodeAddr=$NET.$n CPUs=4 RealMemory=1000"
    done >>"$SLURM_CONF"
    echo "PartitionName=all Nodes=h[1-$HOSTS] Default=YES MaxTime=INFINITE State=UP" >>"$SLURM_CONF"
    # What a shell needs to submit here. Root, more ranks than cores, and MPI over the links: UCX and Open MPI would see
    # through the host names that it is one machine.
    cat >"$STATE/env" <<ENV
export SLURM_CONF=$SLURM_CONF
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export MPICOLL_EXPORT="OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,sm,self \\
    OMPI_MCA_btl_tcp_if_include=$NET.0/24 PRTE_MCA_prte_if_include=$NET.0/24 UCX_TLS=tcp,self MPIR_CVAR_POLLS_BEFORE_YIELD=1"
ENV
}

up() {
    local reason
    reason=$(missing)
    [ -z "$reason" ] || { echo "slurm.sh: $reason" >&2; exit 1; }
    [ ! -e "$STATE" ] || { echo "slurm.sh: $STATE is there: a cluster is up, or one was not ended: make cluster-down" >&2; exit 1; }
    trap 'tail -n 5 "$STATE"/log/* >&2 2>/dev/null || true; down' EXIT
    "$here/hosts.sh" up "${1:-1gbit}"
    configure
    munged --socket="$STATE/munge.socket" --key-file="$STATE/munge.key" --pid-file="$STATE/munged.pid" \
        --log-file="$STATE/log/munged" --seed-file="$STATE/munge.seed" --num-threads=2
    slurmctld -f "$SLURM_CONF"
    for n in $(seq $HOSTS); do
        "$here/hosts.sh" on "$n" slurmd -N "h$n" -f "$SLURM_CONF"
    done
    for _ in $(seq 300); do
        [ "$(sinfo --noheader --format=%D --states=idle 2>/dev/null)" != $HOSTS ] || break
        sleep 0.2
    done
    [ "$(sinfo --noheader --format=%D --states=idle)" = $HOSTS ] || { sinfo >&2; exit 1; }
    trap - EXIT
}

# stop PIDFILE: end a daemon of ours, first kindly.
stop() {
    local pid signal
    pid=$(cat "$1" 2>/dev/null) || return 0
    for signal in TERM KILL; do
        for _ in $(seq 50); do
            # A number is used again some day: only a process that was started with our state is ours.
            grep -qF "$STATE" "/proc/$pid/cmdline" 2>/dev/null || return 0
            kill -s $signal "$pid" 2>/dev/null || true
            sleep 0.1
        done
    done
}

down() {
    if [ -e "$STATE/slurmctld.pid" ]; then
        timeout 10 scancel --user="$(id -un)" 2>/dev/null || true
        for _ in $(seq 50); do # the steps end by themselves, and give back what they hold
            [ -n "$(timeout 5 squeue --noheader 2>/dev/null)" ] || break
            sleep 0.2
        done
    fi
    for file in "$STATE"/slurmd-*.pid "$STATE/slurmctld.pid"; do stop "$file"; done
    "$here/hosts.sh" down
    stop "$STATE/munged.pid"
    rm -rf "$STATE"
}

try() {
    cat <<TEXT
A Slurm of four nodes is up. In a shell of your own:

    . $STATE/env
    export MPICOLL_PYTHON=$1
    sinfo
    jobs/submit.sh generic check --nodes 4 --seconds 10 -- -e 1M -f 8
    squeue
    tail -f runs/generic/*-check/log/*.out

Its logs are in $STATE/log. The links' rate: tests/cluster/slurm.sh rate 100mbit. The end: make cluster-down
TEXT
}

case "${1:-}" in
    up) up "${2:-}" ;;
    rate) "$here/hosts.sh" rate "${2:?rate RATE}" ;;
    down) down ;;
    try) try "${2:?try PYTHON}" ;;
    missing) missing ;;
    *) sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2 ;;
esac
