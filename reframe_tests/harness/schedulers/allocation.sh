#!/usr/bin/env bash
# Runs, inside one allocation, the cases that slurm_shared.py puts into a folder, one after the other.
#
#   allocation.sh FOLDER SECONDS IDLE_S SILENT_S
#
# NUMBER.ready is the script of a case; it is renamed to NUMBER.running, and its end is in NUMBER.done: exit status, 1 where it
# took all its time, seconds. NUMBER.limit: seconds it may take (0: any). NUMBER.cancel: end it. FOLDER/closed: end the allocation
# as soon as nothing is ready; so does nothing to do for IDLE_S. FOLDER/alive changes as long as a ReFrame waits for the cases: the
# same for SILENT_S, and nothing more is started. SECONDS: what the allocation lasts.
set -uo pipefail

folder=$1 lasts=$2 idle_s=$3 silent_s=$4
readonly GRACE_S=30 LOOK_S=1
longest=0 idle_since=0 beat='' beat_at=0 number=

pipes=$(mktemp -d) && mkfifo "$pipes/end" || exit
exec 9<>"$pipes/end"
rm -r "$pipes"

# A case that was killed may leave steps on the nodes, which Slurm would have ended with its job (squeue(1), --steps).
end_steps() {
    local steps
    steps=$(squeue --noheader --steps --jobs="$SLURM_JOB_ID" --format=%i 2>/dev/null | grep -Ev '\.(batch|extern|interactive)$') ||
        return 0
    # shellcheck disable=SC2086 # a word for each step
    scancel $steps 2>/dev/null || true
}

run() {
    local limit=0 word value='' group='' began=$SECONDS asked='' late=0
    read -r limit <"$folder/$number.limit" || true
    {
        timeout --kill-after="$GRACE_S" "$limit" bash "$folder/$number.running" </dev/null 9<&- &
        echo "group $!" >&9
        wait "$!"
        echo "end $?" >&9
    } &
    while :; do
        if read -r -t "$LOOK_S" -u 9 word value; then
            [[ $word == group ]] || break
            group=$value
        fi
        if [[ -n $group && -z $asked && -e $folder/$number.cancel ]]; then
            asked=yes
            kill -TERM "$group" 2>/dev/null || true
        fi
    done
    # What a case leaves behind on this node would disturb the next one; on the others it is a step's.
    kill -KILL -- "-$group" 2>/dev/null || true
    end_steps
    ((limit == 0 || SECONDS - began < limit)) || late=1
    ((SECONDS - began <= longest)) || longest=$((SECONDS - began))
    echo "$value $late $((SECONDS - began))" >"$folder/$number.end"
    mv "$folder/$number.end" "$folder/$number.done"
}

next_ready() {
    local file
    for file in "$folder"/*.ready; do
        [[ -e $file ]] || continue
        number=${file##*/}
        number=${number%.ready}
        return 0
    done
    return 1
}

is_silent() {
    local now=''
    read -r now 2>/dev/null <"$folder/alive" || true
    [[ $now == "$beat" ]] || beat=$now beat_at=$SECONDS
    ((SECONDS - beat_at >= silent_s))
}

while :; do
    if next_ready; then
        # One as long as the longest so far would be cut off by the end of the allocation.
        if is_silent || ((lasts - SECONDS < longest)); then break; fi
        # It may have been withdrawn meanwhile.
        if mv "$folder/$number.ready" "$folder/$number.running" 2>/dev/null; then run; fi
        idle_since=$SECONDS
    elif [[ -e $folder/closed ]]; then
        break
    elif ((SECONDS - idle_since >= idle_s)) || is_silent; then
        # And one more look: what was put there before this file could be seen is still run.
        : >"$folder/closed"
    else
        read -r -t "$LOOK_S" -u 9 || true
    fi
done
: >"$folder/closed"
: >"$folder/ended"
