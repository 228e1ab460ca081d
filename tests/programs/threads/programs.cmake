# SPDX-License-Identifier: Apache-2.0
foreach(name names niceness detached storm closing key_destructors cancellation
        kernel_registration other_rseq own_rseq)
    cryo_test_program(threads/${name})
endforeach()
cryo_test_program(threads/affinity NEEDS two-cpus)
cryo_test_program(threads/real_time NEEDS sys_nice)
cryo_test_program(threads/time_slice NEEDS time_slice)
cryo_test_program(threads/openmp FLAGS -fopenmp LIBS -fopenmp)
foreach(count 1 8 256)
    cryo_test_program(threads/counting NAME counting_${count} FLAGS -DTHREADS=${count})
endforeach()
