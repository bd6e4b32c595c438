# shellcheck shell=bash disable=SC2153 # MODULES is set by the script that submit.sh writes
# What submit.sh, job.sh and collect.sh share. Bash; sourced.

# stop REASON [STATUS]: one line, and out.
stop() {
    printf '%s: %s\n' "${name:-mpicoll}" "$1" >&2
    exit "${2:-2}"
}

# Before 4.4 an empty array is an unbound variable.
((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 404)) || stop "bash $BASH_VERSION: 4.4 or newer is needed first on PATH"

# words NAME TEXT: sets the array NAME to the words of a text, of all its lines; * stays *.
words() {
    read -r -d '' -a "$1" <<<"$2" || true # it read to the end
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

# load_modules: those of $MODULES, in their order.
load_modules() {
    local file module loaded
    [ -n "$MODULES" ] || return 0
    for file in /etc/profile.d/lmod.sh /etc/profile.d/z00_lmod.sh /etc/profile.d/modules.sh; do
        if ! type module >/dev/null 2>&1 && [ -r "$file" ]; then
            set +eu # neither these files nor module, a shell function, mind them
            # shellcheck disable=SC1090
            . "$file"
            set -eu
        fi
    done
    type module >/dev/null 2>&1 || stop "no module command here, and MPICOLL_MODULES asks for: $MODULES"
    for module in $MODULES; do
        loaded=1
        set +eu
        module load "$module" || loaded=0
        set -eu
        [ "$loaded" = 1 ] || stop "module load $module failed: set MPICOLL_MODULES to what module avail shows"
    done
}
