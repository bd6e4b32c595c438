#!/bin/sh
# Run a command as one rank of a node, on the network card (NIC) nearest to the rank's GPU. POSIX.
#
#   place.sh COMMAND...    after a launcher: srun ... place.sh python -m mpicoll.bench
#   place.sh               print the choice only
#
# MPICOLL_NIC     auto (default): by nvidia-smi topo -m, else by NUMA node; none: leave it to the MPI library;
#                 or the cards themselves, local rank 0 first: "mlx5_0:1 mlx5_1:1" (more ranks than cards: in turn)
# MPICOLL_HIDE_GPUS=1    let each rank see its own GPU only; this can defeat CUDA IPC between the ranks of a node
# MPICOLL_PLACE_SAY=1    print the choice to the standard error
#
# The choice is UCX_NET_DEVICES; one that is set already stays. MPICOLL_PLACE, in words, goes into the run file.
set -u

SYS=${MPICOLL_SYSFS:-/sys}

# told NAMES...: the first of these variables that is a number, else 0.
told() {
    for name; do
        eval "value=\${$name:-}"
        case $value in '' | *[!0-9]*) value=0 ;; *) break ;; esac
    done
    printf '%s' "$value"
}
# As mpicoll/launcher.py has them. The launcher's own first: under mpirun, Slurm's are those of the daemon.
rank=$(told OMPI_COMM_WORLD_RANK PMI_RANK PMIX_RANK MV2_COMM_WORLD_RANK SLURM_PROCID)
local=$(told OMPI_COMM_WORLD_LOCAL_RANK MPI_LOCALRANKID MV2_COMM_WORLD_LOCAL_RANK PMI_LOCAL_RANK \
    PMIX_LOCAL_RANK PALS_LOCAL_RANKID FLUX_TASK_LOCAL_ID SLURM_LOCALID)

# item N WORDS...: word N, counted from 0, in turn.
item() {
    turn=$1
    shift
    [ $# -gt 0 ] || return 0
    shift $((turn % $#))
    printf '%s' "$1"
}

# Cards with an active port, as UCX names them; Ethernet ones only where there is no InfiniBand.
active() {
    infiniband='' other=''
    for port in "$SYS"/class/infiniband/*/ports/*; do
        case $(cat "$port/state" 2>/dev/null) in *ACTIVE*) ;; *) continue ;; esac
        card=${port%/ports/*}
        case $(cat "$port/link_layer" 2>/dev/null) in
            Ethernet) other="$other ${card##*/}:${port##*/}" ;;
            *) infiniband="$infiniband ${card##*/}:${port##*/}" ;;
        esac
    done
    printf '%s' "${infiniband:-$other}"
}

# Of the matrix that nvidia-smi topo -m prints: the card nearest to a GPU. GPUs that share their nearest take turns.
nearest() {
    nvidia-smi topo -m 2>/dev/null | awk -v gpu="$1" -v usable="$2" '
        BEGIN {
            split("PIX PXB PHB NODE SYS", order, " ")
            for (i in order) distance[order[i]] = i
            many = split(usable, card, " ")
            for (i = 1; i <= many; i++) { split(card[i], part, ":"); if (!(part[1] in port)) port[part[1]] = part[2] }
        }
        { gsub(/\033\[[0-9;]*m/, ""); gsub(/\r/, "") }
        !columns && $1 == "GPU0" { for (i = 1; i <= NF && $i != "CPU"; i++) column[i] = $i; columns = i - 1; next }
        columns && $1 ~ /^GPU[0-9]+$/ { for (i = 1; i <= columns; i++) cell[$1, i] = $(i + 1) }
        $1 ~ /^NIC[0-9]+:$/ { sub(/:$/, "", $1); alias[$1] = $2 }
        function best(g,   i, name, d, found) {
            near = 9
            for (i = 1; i <= columns; i++) {
                name = column[i] in alias ? alias[column[i]] : column[i]
                d = distance[cell["GPU" g, i]]
                if (name ~ /^GPU/ || !d || (many && !(name in port))) continue
                if (d < near) { near = d; found = "" }
                if (d == near) found = found " " name ":" (name in port ? port[name] : 1)
            }
            return found
        }
        END {
            for (g = 0; g < gpu; g++) seen[best(g)]++
            mine = best(gpu)
            many_near = split(mine, pick, " ")
            if (many_near) print pick[seen[mine] % many_near + 1], order[near]
        }'
}

# Without a GPU: the cards on the NUMA node of the first core that this rank may use.
by_numa() {
    core=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*\([0-9]*\).*/\1/p' /proc/self/status)
    node=''
    for found in "$SYS/devices/system/cpu/cpu$core"/node[0-9]*; do node=${found##*/node}; done
    here=''
    for one in "$@"; do
        [ "$(cat "$SYS/class/infiniband/${one%:*}/device/numa_node" 2>/dev/null)" = "$node" ] && here="$here $one"
    done
    # shellcheck disable=SC2086 # words
    if [ -n "$here" ]; then
        printf '%s NUMA node %s' "$(item "$local" $here)" "$node"
    else
        printf '%s in turn' "$(item "$local" "$@")"
    fi
}

# entry: what CUDA_VISIBLE_DEVICES calls this rank's GPU, by number or UUID; gpu: its number, as nvidia-smi counts.
listed=$(nvidia-smi -L 2>/dev/null)
gpus=$(printf '%s\n' "$listed" | grep -c '^GPU ')
entry='' gpu=''
if [ "$gpus" -gt 0 ]; then
    entry=$((local % gpus))
    # shellcheck disable=SC2046 # words
    [ -z "${CUDA_VISIBLE_DEVICES+set}" ] || entry=$(item "$local" $(printf '%s' "$CUDA_VISIBLE_DEVICES" | tr ',' ' '))
fi
case $entry in
    '') ;;
    *[!0-9]*) # the GPU, or the one that a MIG slice is listed below; none for what Slurm writes where it gives none
        gpu=$(printf '%s\n' "$listed" | awk -v id="UUID: $entry" '
            /^GPU / { n = $2; sub(/:/, "", n) }
            index($0, id) { print n; exit }')
        ;;
    *)
        # A control group renumbers what it lets through, and nvidia-smi counts those only.
        [ "$entry" -lt "$gpus" ] || entry=$((local % gpus))
        gpu=$entry
        ;;
esac

nic='' why=''
if [ -n "${UCX_NET_DEVICES:-}" ]; then
    nic=$UCX_NET_DEVICES why='UCX_NET_DEVICES was set'
else
    case ${MPICOLL_NIC:-auto} in
        none) why='MPICOLL_NIC=none' ;;
        auto)
            cards=$(active)
            if [ -z "$cards" ] && [ -d "$SYS/class/infiniband" ] && [ -n "$(ls "$SYS/class/infiniband")" ]; then
                why='no card has an active port'
            else
                chosen=''
                [ -z "$gpu" ] || chosen=$(nearest "$gpu" "$cards")
                if [ -n "$chosen" ]; then
                    chosen="$chosen in nvidia-smi topo"
                elif [ -n "$cards" ]; then
                    # shellcheck disable=SC2086 # words
                    chosen=$(by_numa $cards)
                fi
                nic=${chosen%% *} why=${chosen#* }
                [ -n "$nic" ] || why='no InfiniBand card found'
            fi
            ;;
        *)
            # shellcheck disable=SC2086 # words
            nic=$(item "$local" $MPICOLL_NIC) why='MPICOLL_NIC'
            ;;
    esac
fi

[ -z "$nic" ] || export UCX_NET_DEVICES="$nic"
[ -z "$gpu" ] || export CUDA_DEVICE_ORDER="${CUDA_DEVICE_ORDER:-PCI_BUS_ID}" # nvidia-smi's; CUDA's own is the fastest first
if [ "${MPICOLL_HIDE_GPUS:-0}" = 1 ] && [ -n "$gpu" ]; then
    export CUDA_VISIBLE_DEVICES="$entry"
fi
export MPICOLL_PLACE="GPU ${gpu:-none}, NIC ${nic:-not chosen} ($why)"
if [ $# -eq 0 ] || [ "${MPICOLL_PLACE_SAY:-0}" = 1 ]; then
    printf 'mpicoll place: %s rank %s, local %s: %s\n' "$(uname -n)" "$rank" "$local" "$MPICOLL_PLACE" >&2
fi
[ $# -eq 0 ] || exec "$@"
