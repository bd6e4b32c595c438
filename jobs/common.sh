# shellcheck shell=bash
# What submit.sh, job.sh and collect.sh share. Bash; sourced.

# stop REASON [STATUS]: one line, and out.
stop() {
    printf '%s: %s\n' "${name:-mpicoll}" "$1" >&2
    exit "${2:-2}"
}

# has_cuda PYTHON: whether this version of the bench knows buffers on a device.
has_cuda() {
    local help
    help=$("$1" -m mpicoll.bench --help 2>/dev/null) || return 1
    [[ $help == *--device* ]]
}

# has PYTHON MODULE COMMAND: whether this version has that command.
has() {
    "$1" -m "$2" "$3" --help >/dev/null 2>&1
}

# complete FILE RANKS: whether a run file is of that many ranks and came to its end.
complete() {
    of_ranks "$1" "$2" && [[ $(tail -n 1 "$1") == *'"record":"end","complete":true'* ]]
}

# of_ranks FILE RANKS: whether the ranks that wrote a run file are the ranks that were asked for.
of_ranks() {
    local first
    IFS= read -r first <"$1" || [ -n "$first" ] || return 1
    [[ $first == *"\"size\":$2,"* ]]
}
