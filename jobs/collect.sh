# shellcheck shell=bash disable=SC2154 # set by the script that submit.sh writes
# The collecting job of a scaling run: counts whole launches, then makes the report. Bash; sourced.
name="mpicoll collect"
# shellcheck source=common.sh
. "$ROOT/jobs/common.sh"
cd "$ROOT" || exit 2
load_modules
shopt -s nullglob

missing=0
for nodes in "${NODE_COUNTS[@]}"; do
    p=$((nodes * RANKS_PER_NODE)) whole=()
    for file in "$DIR"/*.jsonl; do
        if complete "$file" "$p"; then
            whole+=("$file")
        fi
    done
    echo "$name: p = $p: ${#whole[@]} of $REPEATS launches"
    [ "${#whole[@]}" -ge "$REPEATS" ] || missing=1
done

runs=("$DIR"/*.jsonl)
[ "${#runs[@]}" -gt 0 ] || stop "no run file in $DIR: see the output of the jobs before, beside them" 1
has "$PYTHON" analysis report || stop "this version has no report (python -m analysis report); the run files are in $DIR" 1
"$PYTHON" -m analysis report --launches "$REPEATS" --output "$DIR/report.html" "${runs[@]}"
echo "$name: $DIR/report.html"
exit "$missing"
