! SPDX-License-Identifier: Apache-2.0
! Graphs without weights, by mpi_f08, which knows the C library's constants for them by their values.
program graphs_fortran
    use mpi_f08
    implicit none
    type(MPI_Comm) :: graph
    integer :: rank, ranks, sources, targets, from(1), to(1)
    logical :: weighted
    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    call MPI_Dist_graph_create(MPI_COMM_WORLD, 1, [rank], [1], [mod(rank + 1, ranks)], &
        MPI_UNWEIGHTED, MPI_INFO_NULL, .false., graph)
    call MPI_Dist_graph_neighbors_count(graph, sources, targets, weighted)
    call MPI_Dist_graph_neighbors(graph, 1, from, MPI_UNWEIGHTED, 1, to, MPI_UNWEIGHTED)
    print *, rank, sources, targets, weighted, from, to
    call MPI_Comm_free(graph)
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, [integer ::], MPI_WEIGHTS_EMPTY, 0, &
        [integer ::], MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, .false., graph)
    call MPI_Dist_graph_neighbors_count(graph, sources, targets, weighted)
    print *, rank, sources, targets, weighted
    call MPI_Comm_free(graph)
    call MPI_Finalize()
end program
