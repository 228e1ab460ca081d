# SPDX-License-Identifier: Apache-2.0
# Attacks on images and snapshots, and on the directories they lie in. They need root, who becomes
# the other users.
function(add_snapshot_attack name)
    cryo_add_test(NAME system.adversary.snapshot_${name} LABEL system TIMEOUT 60
        COMMAND ${CRYO_PYTHON} -B ${CMAKE_CURRENT_SOURCE_DIR}/snapshot_${name}.py
                ${PROJECT_BINARY_DIR}/bin ${ARGN})
    set_tests_properties(system.adversary.snapshot_${name} PROPERTIES SKIP_RETURN_CODE 77)
endfunction()

add_snapshot_attack(image)
add_snapshot_attack(files)
add_snapshot_attack(objects)
add_snapshot_attack(race)
add_snapshot_attack(delta)
add_snapshot_attack(keeper)
add_snapshot_attack(job $<TARGET_FILE:fake_rank>)
