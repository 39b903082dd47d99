# shellcheck shell=sh
# Sourced by the script that each rank is started through, on the rank's own node: the rank sees one GPU, that of its number there.
# Plain sh. A rank that gets none ends with a sentence: with GPU 0 for everybody the numbers would stand for something else.

# refuse_gpu RANK WORDS...
refuse_gpu() {
    printf 'mpibench: %s: local rank %s gets no GPU: %s\n' "$(uname -n)" "$1" "$2" >&2
    return 1
}

# select_gpu VARIABLE NUMBERS [NARROWING...]
# VARIABLE     says which GPUs a process sees; so may those of NARROWING, which are unset
# NUMBERS      number of the GPU of each rank of the node, in the order of the PCI addresses
# A list that the batch system gave is in the same order, and has the numbers or UUIDs that hold inside the job: the rank takes its
# entry of it. A list of one is what the batch system bound the rank to, and stays.
select_gpu() {
    gpu_variable=$1 gpu_numbers=$2
    shift 2
    gpu_rank='' gpu_given='' gpu_list='' gpu_fields=$IFS
    IFS=:
    for gpu_name in ${MPIBENCH_LOCAL_RANK_VARIABLES-}; do
        eval "gpu_rank=\${$gpu_name-}"
        [ -z "$gpu_rank" ] || break
    done
    IFS=$gpu_fields
    case $gpu_rank in
    '' | *[!0-9]*)
        refuse_gpu '?' "the launcher says its rank on the node in none of ${MPIBENCH_LOCAL_RANK_VARIABLES:-its variables}."
        return
        ;;
    esac
    for gpu_name in "$gpu_variable" "$@"; do
        if [ -z "$gpu_given" ] && eval "[ -n \"\${$gpu_name+set}\" ]"; then
            gpu_given=$gpu_name
            eval "gpu_list=\$$gpu_name"
        fi
        unset "$gpu_name"
    done
    case $gpu_given:$gpu_list in
    :*) ;;
    *: | *:-1* | *:NoDevFiles | *:none | *:void)
        refuse_gpu "$gpu_rank" "$gpu_given='$gpu_list' of its job has none; ask the batch system for the node's GPUs."
        return
        ;;
    *,*) ;;
    *)
        export "$gpu_variable=$gpu_list"
        return
        ;;
    esac
    gpu_number=$(select_entry "$gpu_rank" "$gpu_numbers" ' ')
    gpu_entry=$gpu_number
    [ -z "$gpu_given" ] || [ -z "$gpu_number" ] || gpu_entry=$(select_entry "$gpu_number" "$gpu_list" ,)
    if [ -z "$gpu_entry" ]; then
        refuse_gpu "$gpu_rank" "${gpu_given:+$gpu_given=}${gpu_list:-the site describes $gpu_numbers and no more}${gpu_given:+ of its job has no entry ${gpu_number:-for it}}."
        return
    fi
    export "$gpu_variable=$gpu_entry"
}

# select_entry NUMBER LIST SEPARATOR: prints the entry, counted from 0; nothing where there is none
select_entry() (
    number=$1 IFS=$3
    set -f
    # shellcheck disable=SC2086 # parted on purpose
    set -- $2
    [ "$number" -ge $# ] || {
        shift "$number"
        printf '%s' "$1"
    }
)
