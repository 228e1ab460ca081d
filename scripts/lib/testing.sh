# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Which tests scripts/test runs, what they need beforehand, and how ctest runs them.
# shellcheck disable=SC2154 # labels, regex, full, slice, log, measure, install belong to scripts/test
# shellcheck disable=SC2034 # and asan_too and results are for it

# As cmake/CryoTiers.cmake has them.
CRYO_SLOTS_OF_A_PROCESSOR=4
CRYO_SLICES=6

# select_tests: ctest's arguments in `selection`, and the names in build/log/selected.
select_tests() {
    selection=() asan_too=yes
    local label commit
    if [ ${#labels[@]} -gt 0 ]; then
        label=$(
            IFS='|'
            echo "${labels[*]}"
        )
        selection+=(-L "^($label)\$")
    fi
    if [ -n "$regex" ]; then
        selection+=(-R "$regex")
        slice=''
    elif ! $full; then
        if [ -z "$slice" ]; then
            commit=$(git -C "$CRYO_TOP" rev-parse --short=7 HEAD 2>/dev/null) || commit=0
            slice=$((16#$commit % CRYO_SLICES))
        fi
        [[ $slice =~ ^[0-5]$ ]] ||
            die "no slice '$slice'" "the slices are 0 to $((CRYO_SLICES - 1))"
        selection+=(-L "^(default|slice$slice)\$")
    fi
    # The tests on the debug kernel take part only when it is prepared.
    if $full || [[ $regex == *debug* ]]; then selection+=(-C debugkernel); fi
    # What tests count by: seeds that take turns, and the bounded counts.
    [ -z "$slice" ] || export CRYO_SLICE=$slice
    ! $full || export CRYO_FULL=1
    ctest --test-dir "$CRYO_TOP/build/release" -N "${selection[@]}" |
        sed -n 's/^ *Test *#[0-9]*: //p' >"$log/selected"
    if [ -n "$regex" ] && ! grep -q '^unit[.]' "$log/selected"; then asan_too=''; fi
}

selected() { grep -Eq "$1" "$log/selected"; }

# use_python_of_system: the `python3` that tests find is the one for which their packages are. That
# of a version manager (pyenv) is a shell script, which takes longer than many a test.
use_python_of_system() {
    [ -x /usr/bin/python3 ] || return 0
    mkdir -p "$CRYO_TOP/build/tools"
    ln -sfn /usr/bin/python3 "$CRYO_TOP/build/tools/python3"
    PATH=$CRYO_TOP/build/tools:$PATH
}

# prepare_for_tests: kernels, modules and libraries that one of the selected tests uses.
prepare_for_tests() {
    local kernel kernels=()
    for kernel in 6.1 6.12 7 debug; do
        ! selected "^vm[.].*[.]${kernel/./[.]}\$" || kernels+=("$kernel")
    done
    if selected '^vm[.](cross_kernel|harness)'; then kernels=(6.1 6.12 7 "${kernels[@]}"); fi
    while read -r kernel; do
        [ -n "$kernel" ] || continue
        step "preparing kernel $kernel" "$log/kernel-$kernel.log" \
            "$CRYO_TOP/scripts/vm" fetch --kernel "$kernel"
        step "building the module for kernel $kernel" "$log/module-$kernel.log" \
            "$CRYO_TOP/scripts/vm" build --kernel "$kernel"
    done < <(printf '%s\n' ${kernels[@]+"${kernels[@]}"} | awk '!seen[$0]++')
    if selected '^kunit[.]'; then
        step "building the kernel for KUnit" "$log/kunit.log" "$CRYO_TOP/scripts/kunit" --build
    fi
    if selected '^mpi[.]openmpi5'; then
        # Without it the tests that need it are skipped.
        (step "preparing Open MPI 5.0" "$log/openmpi5.log" "$CRYO_TOP/scripts/vm" tree trixie-openmpi)
    fi
    if selected '^system[.]packages$'; then
        local options=(--no-lint) # the test has them looked at
        $install || options+=(--no-install)
        # The test fails where they cannot be built.
        (step "building the Debian packages" "$log/package.log" \
            "$CRYO_TOP/scripts/package" "${options[@]}")
    fi
}

# What was tested and how, to be compared when it is resumed.
what_is_tested() {
    local option
    git -C "$CRYO_TOP" rev-parse HEAD
    for option in ${given[@]+"${given[@]}"}; do
        case $option in --resume | --record | --no-install) ;; *) printf '%s\n' "$option" ;; esac
    done
}

# check_resumable: whether there is an interrupted run of this commit, and in `spent` how many
# seconds it took.
check_resumable() {
    if [ "$rounds" != 1 ] || $measure; then
        die "--resume goes with neither --repeat nor --measure"
    fi
    [ -z "$(git -C "$CRYO_TOP" status --porcelain)" ] ||
        die "--resume: the tree holds what no commit has" "commit it, and run all of it"
    what_is_tested | cmp -s - "$log/run" ||
        die "--resume: no run of this commit with these options has begun here" \
            "run it without --resume"
    [ ! -e "$log/spent" ] || spent=$(cat "$log/spent")
    spent=$((spent + $(stat -c %Y "$log/times" "$log/began" | sort -n | tail -1) - $(stat -c %Y "$log/began")))
}

begin_results() {
    results=()
    if $resume; then
        rm -rf "$log/running"
    else
        rm -rf "$log/failed" "$log/running" "$log/times" "$log/asan/times" "$log"/ctest-* "$log"/ended-*
        rm -f "$CRYO_TOP"/build/*/Testing/Temporary/CTestCheckpoint.txt
        what_is_tested >"$log/run"
    fi
    echo "$spent" >"$log/spent"
    touch "$log/began"
}

# run_ctest PRESET NAME-OF-RESULT: a test that fails is counted from the result file.
run_ctest() {
    local preset=$1 result=$log/ctest-$2.xml chosen=("${selection[@]}")
    local -x CRYO_TEST_LOG=$log
    if [ "$preset" = asan ]; then
        chosen=(-L '^unit$' ${regex:+-R "$regex"})
        CRYO_TEST_LOG=$log/asan
    fi
    local slots=$(($(nproc) * CRYO_SLOTS_OF_A_PROCESSOR))
    # Beside others a test waits for a processor, and would seem to need less of one.
    if $measure; then slots=1; fi
    results+=("$result")
    if $resume; then
        [ ! -s "$result" ] || return # that part had come to its end
        note_ended "$preset" "$CRYO_TEST_LOG/times" "${result%.xml}.before" &&
            results+=("${result%.xml}.before")
        # ctest's own -F finds no test whose DEPENDS have ended.
        chosen+=(-I "$log/left")
    fi
    ctest --test-dir "$CRYO_TOP/build/$preset" --output-on-failure \
        --parallel "$slots" --output-junit "$result" "${chosen[@]}"
    keep_what_failed
}

# note_ended PRESET TIMES FILE: the tests that have ended in the interrupted run, a line each: name,
# seconds, status; and in build/log/left, for ctest's -I, the numbers of the others. ctest has noted
# the numbers of those that ended; one that it had to kill has no times.
note_ended() {
    local noted=$CRYO_TOP/build/$1/Testing/Temporary/CTestCheckpoint.txt ended=$log/ended-$1
    ! [ -e "$noted" ] || cat "$noted" >>"$ended"
    rm -f "$noted"
    touch "$ended" "$2"
    ctest --test-dir "$CRYO_TOP/build/$1" -N -C debugkernel |
        sed -n 's/^ *Test *#\([0-9]*\): /\1 /p' |
        awk -v left="$log/left" '
            FILENAME == ARGV[1] { ended[$1] = 1; next }
            FILENAME == ARGV[2] { seconds[$1] = $2; status[$1] = $4; next }
            !($1 in ended) { others = others (others == "" ? $1 "," $1 ",1" : "") "," $1; next }
            { print $2, $2 in status ? seconds[$2] " " status[$2] : "0 killed" }
            END { print others == "" ? "1000000,1000000,1" : others > left }' "$ended" "$2" - >"$3"
    [ -s "$3" ]
}

# What a test that ctest had to kill has left is a failing test's, too.
keep_what_failed() {
    local left
    for left in "$CRYO_TEST_LOG"/running/*; do
        [ -d "$left" ] || continue
        mkdir -p "$CRYO_TEST_LOG/failed"
        rm -rf "$CRYO_TEST_LOG/failed/${left##*/}"
        mv "$left" "$CRYO_TEST_LOG/failed/"
    done
    if [ "$CRYO_TEST_LOG" != "$log" ] && [ -d "$CRYO_TEST_LOG/failed" ]; then
        for left in "$CRYO_TEST_LOG"/failed/*; do
            mkdir -p "$log/failed"
            rm -rf "$log/failed/asan.${left##*/}"
            mv "$left" "$log/failed/asan.${left##*/}"
        done
    fi
}

# begin_load, end_load: other programs that compute, move memory about and write, beside the tests.
load_pid=''
begin_load() {
    command -v stress-ng >/dev/null || die "no stress-ng here" "install it: apt-get install stress-ng"
    stress-ng --quiet --cpu "$(nproc)" --vm 1 --vm-bytes 256M --hdd 1 --hdd-bytes 64M \
        --temp-path "$log" &
    load_pid=$!
    trap end_load EXIT
}

end_load() {
    [ -n "$load_pid" ] || return 0
    kill "$load_pid" 2>/dev/null
    wait "$load_pid" 2>/dev/null
    load_pid=''
}
