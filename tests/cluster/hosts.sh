#!/usr/bin/env bash
# Four hosts on one machine, each a network namespace with its own host name, on links of a known rate (root needed):
#
#   hosts.sh up [RATE]             make them; RATE as tc writes it (default 1gbit), both ways of every link
#   hosts.sh rate RATE             give the links another rate
#   hosts.sh down                  remove every trace
#   hosts.sh on N COMMAND...       run a command on host N (1 to 4)
#   hosts.sh mpirun [ARGUMENTS]    Open MPI's mpirun on host 1, two ranks a host
#   hosts.sh agent ADDRESS COMMAND what mpirun starts its daemons with, in place of ssh
#
# MPICOLL_NET=77    the network is 10.77.0.0/24, and all that is made is named by it: two may stand side by side
set -euo pipefail
unset CDPATH # cd would look there, and print where it went

HOSTS=4 N=${MPICOLL_NET:-77}
[[ $N =~ ^[1-9][0-9]{0,2}$ && $N -le 254 ]] || { echo "hosts.sh: MPICOLL_NET=$N: give a number from 1 to 254" >&2; exit 2; }
NET=10.$N.0 BRIDGE=mpicoll$N NAME=mpicoll$N-h VETH=mpicoll$N. TABLE=/run/mpicoll$N.hosts
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# shape VERB RATE: what leaves each host, and what comes to it: without the second one an incast has no limit.
shape() {
    local burst=256kb # two milliseconds, so that slow links are slow for short messages too
    case $2 in *[!0-9]*mbit | *.*) ;; *mbit) burst=$((${2%mbit} / 4 + 16))kb ;; *[!0-9]*gbit) ;; *gbit) burst=$((${2%gbit} * 256))kb ;; esac
    for n in $(seq $HOSTS); do
        tc -n "$NAME$n" qdisc "$1" dev eth0 root tbf rate "$2" burst "$burst" latency 200ms
        tc qdisc "$1" dev "$VETH$n" root tbf rate "$2" burst "$burst" latency 200ms
    done
}

up() {
    ip link add "$BRIDGE" type bridge
    ip link set "$BRIDGE" up
    ip addr add "$NET.254/24" dev "$BRIDGE" # this machine, as the network's fifth host, on a link without limit
    printf '127.0.0.1 localhost\n%s.254 %s\n' "$NET" "$(uname -n)" >"$TABLE"
    for n in $(seq $HOSTS); do
        ip netns add "$NAME$n"
        ip link add "$VETH$n" type veth peer name eth0 netns "$NAME$n"
        ip link set "$VETH$n" master "$BRIDGE" up
        ip -n "$NAME$n" addr add "$NET.$n/24" dev eth0
        ip -n "$NAME$n" link set eth0 up
        ip -n "$NAME$n" link set lo up
        echo "$NET.$n h$n" >>"$TABLE"
    done
    shape add "${1:-1gbit}"
}

down() {
    for n in $(seq $HOSTS); do
        # A namespace lives on while a process is in it; those are ours.
        for signal in TERM KILL; do
            ip netns pids "$NAME$n" 2>/dev/null | xargs -r kill -s $signal 2>/dev/null || true
            for _ in $(seq 50); do
                [ -n "$(ip netns pids "$NAME$n" 2>/dev/null)" ] || break
                sleep 0.1
            done
        done
        ip netns delete "$NAME$n" 2>/dev/null || true
        ip link delete "$VETH$n" 2>/dev/null || true
    done
    ip link delete "$BRIDGE" 2>/dev/null || true
    rm -f "$TABLE"
    # Where ip keeps the names; not ours if another one is in it.
    if rmdir /run/netns 2>/dev/null || { [ -z "$(ls /run/netns 2>/dev/null)" ] && umount /run/netns 2>/dev/null; }; then
        rmdir /run/netns 2>/dev/null || true
    fi
}

on() {
    local n=$1
    shift
    # Not "ip netns exec": it hides the mount of the control groups. The table of hosts is seen by this command only.
    # shellcheck disable=SC2016 # for the shell inside
    exec nsenter --net="/run/netns/$NAME$n" unshare --uts --mount sh -c \
        'mount --bind "$1" /etc/hosts; hostname "$2"; shift 2; exec "$@"' sh "$TABLE" "h$n" "$@"
}

case "${1:-}" in
    up) up "${2:-}" ;;
    rate) shape change "${2:?rate RATE}" ;;
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
    *) sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2 ;;
esac
