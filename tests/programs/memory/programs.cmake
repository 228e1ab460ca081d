# SPDX-License-Identifier: Apache-2.0
foreach(name heap_brk heap_malloc mapping_growth stack_growth stack_large_frame many_mappings
        shared_anonymous shared_twice private_file private_follows unlinked_mapped_file memfd memfd_executed sealed_memfd sparse_terabyte
        sparse_shared reordered reservation
        protections locked advice changing_advice growsdown zero_pages vdso read_only_after_relocation)
    cryo_test_program(memory/${name})
endforeach()
cryo_test_program(memory/shared_file CHECKPOINT_OPTIONS --save-shared)
cryo_test_program(memory/locked_from_now_on)
cryo_test_program(memory/numa_policy NEEDS numa)
cryo_test_program(memory/sealed NEEDS mseal)
cryo_test_program(memory/hugetlb NEEDS hugetlb)
cryo_test_program(memory/hugetlb_shared NEEDS hugetlb)
cryo_test_program(memory/hugetlbfs NEEDS hugetlbfs)
cryo_test_program(memory/thp NEEDS thp)
cryo_test_program(memory/mergeable NEEDS ksm)
cryo_test_program(memory/merge_any NEEDS memory-merge)
cryo_test_program(memory/guards NEEDS guards)
cryo_test_program(memory/droppable NEEDS droppable)
