#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bash alone: variables, arrays, functions, traps, open descriptors and options. Only what is built
# in, so that no process is forked while the program waits.

number=1
sabotage=
while (($#)); do
    case $1 in
    --dir) dir=$2 ;;
    --sabotage) sabotage=$2 ;;
    esac
    shift 2
done

sabotaged() { [[ $sabotage == "$1" ]]; }

publish() { # NAME TEXT: whole or not at all
    printf '%s' "$2" >"$dir/$1.$number.draft"
    mv -T "$dir/$1.$number.draft" "$dir/$1.$number"
}

equal() { # WHAT EXPECTED FOUND
    [[ $2 == "$3" ]] && return
    publish verdict "FAIL: $1: expected $2, found $3"
    exit 1
}

declare -A table=([one]=1 [two]=2)
list=({1..1000})
count=0
add() { count=$((count + $1)); }
signals=0
trap 'signals=$((signals + 1))' USR1
set -o noclobber
mkfifo "$dir/silence"
exec 7>"$dir/log" 8<>"$dir/silence"

while :; do
    add 1
    printf 'line %d\n' "$number" >&7
    publish ready ""
    until [[ -e $dir/check.$number ]]; do
        read -rt 0.01 -u 8 # a pause without a process
    done
    read -r told <"$dir/check.$number"

    sabotaged "array" && unset 'list[500]'
    sabotaged "table" && table[two]=3
    equal "size of the array" 1000 "${#list[@]}"
    equal "entry of the table" 2 "${table[two]}"
    equal "count by the function" "$number" "$count"
    equal "option noclobber" 1 "$([[ $- == *C* ]] && echo 1)"
    kill -USR1 $$
    equal "signals trapped" "$number" "$signals"
    mapfile -t lines <"$dir/log"
    equal "lines of the log" "$number" "${#lines[@]}"
    [[ $told == *more* ]] || break
    publish verdict PASS
    number=$((number + 1))
done
publish verdict PASS
echo PASS
