#!/usr/bin/env bash
# Runs, inside one allocation, the cases that slurm_shared.py puts into a folder, one after the other.
#
#   allocation.sh FOLDER SECONDS IDLE_S SILENT_S
#
# NUMBER.ready is the script of a case; it is renamed to NUMBER.running, and its end is in NUMBER.done: exit status, 1 where it
# took all its time, seconds. NUMBER.limit: seconds it may take (0: any). NUMBER.cancel: end it. FOLDER/closed: end the allocation
# as soon as nothing is ready; so does nothing to do for IDLE_S. FOLDER/alive changes as long as a ReFrame waits for the cases: the
# same for SILENT_S, and nothing more is started. SECONDS: what the allocation lasts. A case that the end of the allocation cuts off
# leaves no NUMBER.done.
set -uo pipefail

folder=$1 lasts=$2 idle_s=$3 silent_s=$4
readonly GRACE_S=30 LOOK_S=1
longest=0 beat='' number='' ending='' now=0

cd -- "$folder" || exit # the folder of the case that began the allocation may be taken away
pipes=$(mktemp -d) && mkfifo "$pipes/end" || exit
exec 9<>"$pipes/end"
rm -r "$pipes"
trap 'ending=yes' TERM INT

# Seconds since boot: bash's SECONDS follows a clock that is set.
look_at_clock() {
    local whole
    read -r whole _ </proc/uptime
    now=${whole%.*}
}

# Whether Slurm is ending the job: it starts no further step then, and the one that runs may have been ended. Where Slurm does not
# answer the job goes on.
is_over() {
    local state
    [[ -z $ending ]] || return 0
    state=$(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%T 2>/dev/null) || return 1
    [[ $state != RUNNING ]]
}

list_steps() {
    squeue --noheader --steps --jobs="$SLURM_JOB_ID" --format=%i 2>/dev/null
}

# In a job of the user's, steps that were there before are the user's own; where Slurm does not say which, nothing is begun.
before=''
[[ -z ${MPIBENCH_OWN_NODES-} ]] || before=$(list_steps) || exit

# A case that was killed may leave steps on the nodes, which Slurm would have ended with its job (squeue(1), --steps).
end_steps() {
    local steps
    steps=$(list_steps | grep -Ev '\.(batch|extern|interactive)$' | grep -vxF -- "$before") || return 0
    # shellcheck disable=SC2086 # a word for each step
    scancel $steps 2>/dev/null || true
}

# So would processes on this node that left the case's group (setsid); they are known by the job's number in their environment.
end_strays() {
    local process word
    local -a words
    for process in /proc/[0-9]*; do
        [[ -O $process && ${process#/proc/} != "$$" && ${process#/proc/} != "$PPID" ]] || continue
        words=()
        mapfile -d '' -t words 2>/dev/null <"$process/environ" || continue
        for word in "${words[@]}"; do
            [[ $word == "MPIBENCH_CASE=$folder/$number" ]] || continue
            kill -KILL "${process#/proc/}" 2>/dev/null || true
            break
        done
    done
}

run() {
    local limit=0 word value='' group='' asked='' late=0 began took
    look_at_clock
    began=$now
    read -r limit <"$folder/$number.limit" || true
    {
        MPIBENCH_CASE=$folder/$number timeout --kill-after="$GRACE_S" "$limit" bash "$folder/$number.running" </dev/null 9<&- &
        echo "group $!" >&9
        wait "$!"
        echo "end $?" >&9
    } &
    local case=$!
    while :; do
        if read -r -t "$LOOK_S" -u 9 word value; then
            [[ $word == group ]] || break
            group=$value
            continue
        fi
        # Whoever killed it took its last words, too.
        if ! kill -0 "$case" 2>/dev/null && ! read -r -t 0 -u 9; then
            value=137
            break
        fi
        if [[ -n $group && -z $asked && (-n $ending || -e $folder/$number.cancel) ]]; then
            asked=yes
            kill -TERM "$group" 2>/dev/null || true
        fi
    done
    # What a case leaves behind would disturb the next one.
    [[ -z $group ]] || kill -KILL -- "-$group" 2>/dev/null || true
    end_strays
    end_steps
    if is_over; then
        ending=yes
        return
    fi
    look_at_clock
    took=$((now - began))
    # timeout(1): 124, or 137 where it had to kill.
    ((limit > 0 && took >= limit)) && [[ $value == 124 || $value == 137 ]] && late=1
    ((took <= longest)) || longest=$took
    echo "$value $late $took" >"$folder/$number.end"
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
    local said=''
    read -r said 2>/dev/null <"$folder/alive" || true
    look_at_clock
    [[ $said == "$beat" ]] || beat=$said beat_at=$now
    ((now - beat_at >= silent_s))
}

look_at_clock
start=$now idle_since=$now beat_at=$now
until [[ -n $ending ]]; do
    look_at_clock
    if next_ready; then
        # One as long as the longest so far would be cut off by the end of the allocation.
        if is_silent || ((lasts - (now - start) < longest)) || is_over; then break; fi
        # It may have been withdrawn meanwhile.
        if mv "$folder/$number.ready" "$folder/$number.running" 2>/dev/null; then run; else sleep "$LOOK_S"; fi
        look_at_clock
        idle_since=$now
    elif [[ -e $folder/closed ]]; then
        break
    elif ((now - idle_since >= idle_s)) || is_silent; then
        # And one more look: what was put there before this file could be seen is still run.
        : >"$folder/closed" || break
    else
        read -r -t "$LOOK_S" -u 9 || true
    fi
done
: >"$folder/closed"
: >"$folder/ended"
