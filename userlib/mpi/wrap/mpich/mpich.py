#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the wrappers of MPICH from functions.txt and MPICH's own mpi.h.

    mpich.py functions.txt mpich/functions.txt INCLUDE-DIRECTORY OUTPUT-DIRECTORY

writes what generate.py writes (but objects.gen.S: MPICH's handles are no objects), of those functions
that the headers declare; mpi.h: MPICH's own, with a type for each kind of handle (handle.hpp); and
missing.gen.S: what is not covered.

Functions with large counts (MPI_Send_c) are in no table: their prototypes are the headers', and what
is particular to them is that of the function without _c. Where messages are counted, they lead there:

    int PMPI_Send_c(const void *buf, MPI_Count count, MPI_Datatype datatype, ...)
    {
        const Elements counted_count(count, datatype);      // large.hpp
        return PMPI_Send(buf, counted_count.count(), counted_count.type(), ...);
    }
"""
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import generate  # noqa: E402

generate.MADE_BY = "Made by mpich.py from functions.txt and MPICH's mpi.h."


def with_types(header):
    """Each kind of handle as a type of its own, where they are all integers."""
    for handle in generate.HANDLES:
        header = header.replace(f"typedef int {handle};", f"CRYO_MPI_HANDLE({handle});")
    return "#pragma GCC system_header\n" + header


def chosen(functions, headers):
    """The functions that this library has. Persistent collectives have lost Open MPI's MPIX_."""
    declared = set(re.findall(r"^(?:int|double|MPI_\w+) (PMPI\w+)\(", headers, re.MULTILINE))
    declared -= set(re.findall(r"^#define (PMPI\w+)\(", headers, re.MULTILINE))
    for function in functions:
        if function.full_name() not in declared:
            function.name = function.name.removeprefix("MPIX_")
    return [f for f in functions if f.full_name() in declared]


class Large(generate.Function):
    """One with large counts whose messages are counted: it leads to the one without."""

    def wrapper(self):
        lines, arguments = [], []
        for count, following in zip(self.parameters, [*self.parameters[1:], None]):
            if count.declaration.startswith("MPI_Count "):
                lines.append(f"    const Elements counted_{count.name}({count.name}, {following.name});")
                arguments.append(f"counted_{count.name}.count()")
            elif arguments and arguments[-1].endswith(".count()"):
                arguments.append(arguments[-1].replace(".count()", ".type()"))
            else:
                arguments.append(count.name)
        short = self.full_name().removesuffix("_c")
        return [f"EXPORTED int {self.full_name()}({self.parameter_list()})", "{", *lines,
                f"    return {short}({', '.join(arguments)});", "}", self.alias()]


# Written by hand (large.cpp). Persistent collectives and MPI_Register_datarep_c are not covered.
LARGE_BY_HAND = ("Buffer_attach", "Buffer_detach", "Op_create", "Type_get_contents", "Win_allocate",
                 "Win_allocate_shared", "Win_create", "Win_shared_query")
LARGE_ABSENT = ("Register_datarep",)


def with_large_counts(functions, headers):
    """The functions with large counts: those that are the library's, and those that are made of others."""
    found = re.findall(r"^int PMPI_(\w+)_c\((.*?)\)", headers, re.MULTILINE | re.DOTALL)
    prototypes = {name: [" ".join(text.split()) for text in parameters.split(",")]
                  for name, parameters in found}
    own, led = [], []
    for function in functions:
        persistent = function.collective and function.name.endswith("_init")
        if function.name not in prototypes or function.name in LARGE_ABSENT or persistent:
            continue
        if function.by_hand:
            if function.name in LARGE_BY_HAND:
                own.append(generate.Function(f"{function.name}_c", by_hand=True))
            continue
        parameters = [large_parameter(text, short)
                      for text, short in zip(prototypes[function.name], function.parameters)]
        if function.name == "Type_get_envelope": # it tells one number more
            parameters = [generate.Parameter.parse(text) for text in prototypes[function.name]]
        elif len(prototypes[function.name]) != len(function.parameters):
            raise SystemExit(f"MPI_{function.name}_c has other parameters than MPI_{function.name}")
        large = Large if function.watched else generate.Function
        (led if function.watched else own).append(
            large(f"{function.name}_c", "int", parameters, collective=function.collective,
                  access=function.access))
    return own, led


def large_parameter(text, short):
    """As the headers have it, with the name and the marks that the table has."""
    if short.handle:
        return short
    declared = re.fullmatch(r"(.*?)(\w+)((?:\[.*\])*)", text)
    return generate.Parameter(short.mark, declared[1] + short.name + declared[3], short.name)


def objects_source(header):
    """The predefined objects, by their numbers."""
    kinds = "|".join(generate.HANDLES)
    found = re.findall(rf"^#define (MPI\w+)\s+\(?\(({kinds})\)\(?(0[x0-9a-f]*)\)", header, re.MULTILINE)
    lines = [f"// {generate.NOTICE}", f"// {generate.MADE_BY}", '#include "mpi/stock/objects.hpp"', "",
             "namespace cryo::mpi {", "", f"static Object objects[{len(found)}];", "",
             "const Predefined predefined[] = {"]
    for i, (name, kind, number) in enumerate(found):
        is_null = "true" if name.endswith("_NULL") else "false"
        lines.append(f'    {{&objects[{i}], "{name}", {number}, '
                     f'Kind::{kind.removeprefix("MPI_")}, {is_null}, false}},')
    return lines + ["};", "", f"const size_t predefined_count = {len(found)};", "",
                    "} // namespace cryo::mpi"]


def missing_source(functions, headers):
    """Each function that nothing here covers ends the program, by name: a program that needs it but does
    not call it runs. They are weak, for the sake of those that are written by hand."""
    covered = {f.full_name() for f in functions}
    declared = set(re.findall(r"^(?:int|double|MPI_\w+) P(MPIX?_\w+)\(", headers, re.MULTILINE))
    declared -= set(re.findall(r"^#define P?(MPIX?_\w+)\(", headers, re.MULTILINE))
    names = [name for name in sorted(declared) if "P" + name not in covered]
    names = [*names, *("P" + name for name in names)]
    lines = [f"// {generate.NOTICE}", f"// {generate.MADE_BY}", ".text"]
    for i, name in enumerate(names):
        lines += [f".weak {name}", f".type {name}, @function", f"{name}:",
                  f"    leaq .L{i}(%rip), %rdi", "    jmp cryo_mpich_lacks",
                  f".size {name}, . - {name}"]
    lines.append('.section .rodata.str1.1, "aMS", @progbits, 1')
    lines += [f'.L{i}: .asciz "{name}"' for i, name in enumerate(names)]
    return [*lines, '.section .note.GNU-stack, "", @progbits']


def main(functions_path, more_functions_path, include, output):
    header = Path(include, "mpi.h").read_text()
    others = "".join(path.read_text() for path in Path(include).glob("mpi*.h"))
    functions = [generate.Function.parse(line)
                 for path in (functions_path, more_functions_path)
                 for line in generate.statements(Path(path))]
    functions = chosen(functions, others)
    own, led = with_large_counts(functions, others)
    functions += own
    source = generate.functions_source(functions)
    source.insert(source.index('#include "mpi/wrap/wrapper.hpp"'), '#include "mpi/wrap/mpich/large.hpp"')
    source += [line for function in led for line in ["", *function.wrapper()]]
    for name, text in (("mpi.h", with_types(header)),
                       ("functions.gen.hpp", generate.functions_header(functions)),
                       ("functions.gen.cpp", source),
                       ("objects.gen.cpp", objects_source(header)),
                       ("missing.gen.S", missing_source(functions + led, others))):
        lines = text if isinstance(text, list) else [text]
        Path(output, name).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 5:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
