# shellcheck shell=bash disable=SC2154 # what the job's script sets
# Runs the launches of a job. The job's script, which script.py writes, sources this file, sets
#
#   launch_log start_log   files for a line of each launch that ended, and of each start of the job
#   limit_s grace_s        seconds after which a launch is asked to end, and then until it is killed
#   most_kib               KiB of each of a launch's two streams that are kept; with one byte more it is ended
#   owner look_s           HOST:PROCESS:START of the ReFrame without which the job must not go on (none: empty), and how often to look
#   job_key                what ReFrame gave this job alone; nonces begin with it
#   digested               programs and libraries, of which digests are logged
#   group                  empty, or what the next launches may fail in without ending the job
#
# and set_debug, which exports what names $MPIBENCH_DEBUG, and calls: begin_launches, draw_nonce and launch for each, end_launches.

pipes='' nonce='' running='' stopped='' left_out='' watcher=''
timed_out=124 too_much=153 # timeout(1); 128 + SIGXFSZ, of a process beyond ulimit -f

begin_launches() { # NAME...
    local name
    # What an earlier start of the same job left here would be counted with what this one measures.
    rm -rf evidence "$launch_log" record.sh record[0-9]*.sh digests.{begin,end}.txt outputs.txt
    for name in "$@"; do rm -f "$name".[0-9]*.{out,err,debug} "$name".[0-9]*.debug.*; done
    echo "$(date -u +%FT%TZ) $(hostname)" >>"$start_log"
    pipes=$(mktemp -d) && mkfifo "$pipes/never" || return
    log_digests begin
    trap 'end_job 143' TERM INT HUP
    [ -z "$owner" ] || watch_owner
}

end_launches() {
    trap - TERM INT HUP
    log_digests end
    [ -z "$watcher" ] || kill "$watcher" 2>/dev/null || true
    rm -rf "$pipes"
}

# What the programs are on this node when the first launch begins, and when the last one has ended.
log_digests() { # WHEN
    {
        [ ${#digested[@]} -eq 0 ] || sha256sum "${digested[@]}"
        digest_inside
    } >"digests.$1.txt" 2>/dev/null || true
}

# The same in containers, where the job's script says how.
digest_inside() { :; }

# What cannot be written, or is too much, is still read, so that the launcher can end in order. cat writes what it has read at once, so
# that nothing is lost if the job is killed (head would keep some back).
keep() { # FILE PROCESS
    local status=0 reader=
    # Whoever ends this ends its cat, too, which would go on reading.
    trap 'trap - TERM; kill "$reader"; exit 143' TERM
    (
        trap - TERM
        ulimit -c 0
        ulimit -Sf "$most_kib"
        exec cat >"$1"
    ) <&0 &
    reader=$!
    wait "$reader" || status=$?
    trap - TERM
    if [ $status -eq $too_much ]; then
        : >"$pipes/full"
        kill -TERM "$2"
    fi
    [ $status -eq 0 ] || exec cat >/dev/null
} 2>/dev/null

# `timeout` leads a process group of its own, which a signal to the job's group does not reach; it hands TERM on, and kills after the
# grace (timeout(1)), but what outlives its own child is left to us.
end_job() { # STATUS
    trap '' TERM INT HUP
    if [ -n "$running" ]; then
        kill -TERM "$running" 2>/dev/null || true
        wait "$running" 2>/dev/null || true
        kill -KILL -- "-$running" 2>/dev/null || true
    fi
    rm -rf "$pipes"
    exit "$1"
}

# What only the next launch is given, and its ranks repeat in their records. No process: random(4).
draw_nonce() {
    read -r nonce </proc/sys/kernel/random/uuid
    nonce=$job_key.$nonce
}

launch() { # NAME REPEAT COMMAND...
    [ -z "$stopped" ] || return 0
    # Behind a bar, so that the empty group is never among them.
    case "$left_out|" in *"|$group|"*) return 0 ;; esac
    local name=$1 repeat=$2 started=$SECONDS status=0 out err late begun ended took boot
    shift 2
    export MPIBENCH_DEBUG="$PWD/$name.$repeat.debug"
    set_debug
    mkdir -p "evidence/$name.$repeat"
    # Of its own: what has left an earlier launch's process group, and holds its pipes open, does not write into these.
    rm -f "$pipes/out" "$pipes/err"
    mkfifo "$pipes/out" "$pipes/err" || return
    # Hundredths of a second that no clock's adjustment moves, and without a process of its own (proc(5), /proc/uptime).
    read -r begun _ </proc/uptime
    read -r boot </proc/sys/kernel/random/boot_id
    # In the background, because a shell heeds a signal only after what runs in its foreground.
    timeout --kill-after="$grace_s" "$limit_s" "$@" >"$pipes/out" 2>"$pipes/err" </dev/null &
    running=$!
    keep "$name.$repeat.out" "$running" <"$pipes/out" &
    out=$!
    keep "$name.$repeat.err" "$running" <"$pipes/err" &
    err=$!
    wait "$running" || status=$?
    read -r ended _ </proc/uptime
    took=$((10#${ended/./} - 10#${begun/./}))
    # A launch that had to be killed after the grace takes `timeout` with it: 128 + SIGKILL.
    [ $status -ne 137 ] || [ $((SECONDS - started)) -lt "$limit_s" ] || status=$timed_out
    [ $status -ne $timed_out ] && [ ! -e "$pipes/full" ] || kill -KILL -- "-$running" 2>/dev/null || true
    running=
    # Something that left the launch's process group may hold the pipes open for ever.
    { read -r -t "$grace_s" <>"$pipes/never" || kill "$out" "$err"; } 2>/dev/null &
    late=$!
    wait "$out" "$err" 2>/dev/null || true
    kill "$late" 2>/dev/null || true
    [ ! -e "$pipes/full" ] || status=$too_much
    if [ -n "$group" ]; then
        rm -f "$pipes/full"
        [ $status -eq 0 ] || left_out="$left_out|$group"
    else
        case $status in "$timed_out" | "$too_much") stopped=$name.$repeat ;; esac
    fi
    printf '%s %d %d %d.%02d %s\n' "$name" "$repeat" $status $((took / 100)) $((took % 100)) \
        "$nonce $boot $begun $ended" >>"$launch_log"
    log_output "$name.$repeat.out"
}

# What a launch has printed when it ends: nothing put in its place later is its output.
log_output() { # FILE
    sha256sum -- "$1" >>outputs.txt 2>/dev/null || true
}

# What a launch wrote into a file of its own: apart from what it printed, since the MPI may have printed there, too, and its lines
# look like a program's.
keep_result() { # NAME REPEAT FILE
    [ -f "$3" ] || return 0
    head -c $((most_kib * 1024)) "$3" >"$1.$2.result.out"
    log_output "$1.$2.result.out"
}

# Ends the job when its owner is gone: killed, ReFrame can notify nobody. Nothing is started for a look, so that it costs the ranks
# no core: `read` waits on a pipe that nobody writes to, and the start of the process, which distinguishes it from a later one of the
# same number, is read by the shell itself (proc(5), fields 3, 4 and 22 of /proc/PROCESS/stat).
watch_owner() {
    local process=${owner%:*} start=${owner##*:} line own never
    process=${process##*:}
    export MPIBENCH_OWNER=$owner
    {
        trap - TERM INT HUP
        exec {never}<>"$pipes/never"
        while :; do
            line=gone
            read -r line <"/proc/$process/stat" || true
            # shellcheck disable=SC2086 # a word a field
            set -- ${line##*) }
            [ "${20:-}" != "$start" ] || [ "$1" = Z ] || line=
            read -r own </proc/$BASHPID/stat
            # shellcheck disable=SC2086
            set -- ${own##*) }
            # Without its script the watcher has nobody to end, and the script's number may be another process's by now.
            [ "$2" = $$ ] || exit
            [ -z "$line" ] || kill -TERM $$
            read -r -t "$look_s" -u "$never" || true
        done
    } 2>/dev/null &
    watcher=$!
}
