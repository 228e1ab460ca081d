# SPDX-License-Identifier: Apache-2.0
foreach(name registers x87 sse vectors_across segment_bases)
    cryo_test_program(cpu/${name})
endforeach()
cryo_test_program(cpu/rounding LIBS m)
cryo_test_program(cpu/avx NEEDS avx)
cryo_test_program(cpu/avx512 NEEDS avx512)
cryo_test_program(cpu/protection_keys NEEDS pku MAY_BE_REFUSED "protection key")
cryo_test_program(cpu/amx NEEDS amx MAY_BE_REFUSED AMX)
