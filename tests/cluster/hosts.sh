#!/usr/bin/env bash
# Four hosts on one machine, each a network namespace with its own host name, on links of a known rate (root needed):
#
#   hosts.sh up [RATE]             make them; RATE as tc writes it (default 1gbit), both ways of every link
#   hosts.sh down                  remove every trace
#   hosts.sh on N COMMAND...       run a command on host N (1 to 4)
#   hosts.sh mpirun [ARGUMENTS]    Open MPI's mpirun on host 1, two ranks a host
#   hosts.sh agent ADDRESS COMMAND what mpirun starts its daemons with, in place of ssh
set -euo pipefail

HOSTS=4 NET=10.77.0 BRIDGE=mpicoll0 NAME=mpicoll-h
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

up() {
    local rate=${1:-1gbit}
    ip link add "$BRIDGE" type bridge
    ip link set "$BRIDGE" up
    for n in $(seq $HOSTS); do
        ip netns add "$NAME$n"
        ip link add "mpicoll$n" type veth peer name eth0 netns "$NAME$n"
        ip link set "mpicoll$n" master "$BRIDGE" up
        ip -n "$NAME$n" addr add "$NET.$n/24" dev eth0
        ip -n "$NAME$n" link set eth0 up
        ip -n "$NAME$n" link set lo up
        # What leaves the host, and what comes to it: without the second one an incast has no limit.
        tc -n "$NAME$n" qdisc add dev eth0 root tbf rate "$rate" burst 256kb latency 200ms
        tc qdisc add dev "mpicoll$n" root tbf rate "$rate" burst 256kb latency 200ms
    done
}

down() {
    for n in $(seq $HOSTS); do
        # A namespace lives on while a process is in it; those are ours.
        ip netns pids "$NAME$n" 2>/dev/null | xargs -r kill 2>/dev/null || true
        ip netns delete "$NAME$n" 2>/dev/null || true
        ip link delete "mpicoll$n" 2>/dev/null || true
    done
    ip link delete "$BRIDGE" 2>/dev/null || true
}

on() {
    local n=$1
    shift
    # Not "ip netns exec": it hides the mount of the control groups.
    exec nsenter --net="/run/netns/$NAME$n" unshare --uts sh -c 'hostname "$1"; shift; exec "$@"' sh "h$n" "$@"
}

case "${1:-}" in
    up) up "${2:-}" ;;
    down) down ;;
    on) shift; on "$@" ;;
    agent) n=${2##*.}; shift 2; on "$n" sh -c "$*" ;;
    mpirun)
        shift
        export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
        export PRTE_MCA_rmaps_default_mapping_policy=slot:oversubscribe PRTE_MCA_plm_ssh_agent="$here/hosts.sh agent"
        export OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,sm,self OMPI_MCA_btl_tcp_if_include=$NET.0/24 PRTE_MCA_prte_if_include=$NET.0/24
        on 1 mpirun --host "$NET.1:2,$NET.2:2,$NET.3:2,$NET.4:2" -n 8 "$@"
        ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2 ;;
esac
