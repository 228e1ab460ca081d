# SPDX-License-Identifier: Apache-2.0
# Attacks on the daemons of MPI jobs, by the network and in the job's directories. They need root, who
# becomes the other users.
cryo_add_test(NAME system.adversary.job_frames LABEL system TIMEOUT 120
    COMMAND ${CRYO_PYTHON} -B ${CMAKE_CURRENT_SOURCE_DIR}/job_frames.py ${PROJECT_BINARY_DIR}/bin
            $<TARGET_FILE:fake_rank>)
set_tests_properties(system.adversary.job_frames PROPERTIES SKIP_RETURN_CODE 77)
