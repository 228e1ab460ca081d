#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the wrappers of an MPI library from functions.txt and objects.txt.

    generate.py functions.txt openmpi/functions.txt objects.txt OUTPUT-DIRECTORY

writes functions.gen.hpp (the table of the stock library's functions), functions.gen.cpp (its loading
and one wrapper a function), objects.gen.S and objects.gen.cpp (the predefined objects).

A wrapper translates handles, crosses into the capsule once, and translates back:

    int PMPI_Isend(const void *buf, ..., MPI_Comm comm, MPI_Request *request)
    {
        const Inside inside;
        if (rank::engine_counts)
            return traffic::Isend(buf, ..., comm, request);
        Made real_request(request);
        return done(call(stock.Isend, buf, ..., real_of(comm), real_request.place()), real_request);
    }

Collectives tell the rank engine of themselves, and so does what makes requests:

        rank::Collective turn(comm);                blocking
        return turn.over(call(...));
        rank::started(comm);                        non-blocking
        return rank::begun(rank::tracked(call(...), request), comm);

And so do operations on windows:

        rank::Operation operation(win, target_rank);
        return operation.over(call(...));

What not every release has (openmpi/functions.txt) ends the program by name where it is missing.
Persistent collectives have two names, MPIX_Bcast_init and MPI_Bcast_init.
"""
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

HANDLES = ("MPI_Comm", "MPI_Datatype", "MPI_Errhandler", "MPI_File", "MPI_Group", "MPI_Info",
           "MPI_Op", "MPI_Request", "MPI_Message", "MPI_Win", "MPI_Session")
MARKS = ("fortran", "watched", "collective", "access")
NOTICE = "SPDX-License-Identifier: Apache-2.0"
MADE_BY = "Made by generate.py from functions.txt and objects.txt."


@dataclass
class Parameter:
    mark: str           # "", out, inout, kept, weights or rooted
    declaration: str    # as in C
    name: str
    handle: str = ""    # the handle's type, or ""
    is_pointer: bool = False
    length: str = ""    # of an array of handles

    @staticmethod
    def parse(text):
        mark, _, rest = text.partition(" ")
        if mark not in ("out", "inout", "kept", "weights", "rooted"):
            mark, rest = "", text
        declared = re.fullmatch(r"(?:const )?([\w ]+?) ?(\**)(\w+)((?:\[.*\])*)", rest)
        if not declared:
            raise SystemExit(f"functions.txt: cannot read the parameter '{text}'")
        base, stars, name, brackets = declared.groups()
        length = brackets[1:-1] if base in HANDLES else ""
        return Parameter(mark, rest.replace(f"[{length}]", "[]") if length else rest, name,
                         base if base in HANDLES else "", bool(stars), length)

    def preparation(self):
        """The statement before the call, with the helper of handles.hpp that it makes."""
        if self.mark == "rooted":
            return [f"{self.name} = handle_or_null({self.name});"]
        helper = self.helper()
        if not helper:
            return []
        what = f"{self.name}, {self.length}" if self.length else self.name
        return [f"{helper} {self.local()}({what});"]

    def helper(self):
        if not self.handle or not (self.is_pointer or self.length):
            return ""
        if self.length:
            return {"": "RealArray", "inout": "ChangedArray", "kept": "KeptArray"}[self.mark]
        return {"out": "Made", "inout": "Changed"}[self.mark]

    def local(self):
        return f"real_{self.name}"

    def argument(self):
        if self.helper():
            return f"{self.local()}.place()"
        if self.mark == "weights":
            return f"abi::real_weights({self.name})"
        return f"real_of({self.name})" if self.handle else self.name


@dataclass
class Function:
    name: str
    returns: str = "int"
    parameters: list = field(default_factory=list)
    by_hand: bool = False
    fortran: bool = False
    watched: bool = False
    collective: bool = False
    access: bool = False
    newer: bool = False

    @staticmethod
    def parse(line):
        head, _, rest = line.partition("(")
        words = head.split(" ")
        by_hand = words[:2] == ["by", "hand"]
        mark = words[0] if words[0] in MARKS else ""
        words = words[2:] if by_hand else words[1:] if mark else words
        texts = [text for text in rest.rstrip(")").split(", ") if text]
        if texts[-1:] == ["..."]:
            texts.pop()
        return Function(words[-1], " ".join(words[:-1]) or "int",
                        [] if by_hand else [Parameter.parse(text) for text in texts],
                        by_hand, mark == "fortran", mark == "watched", mark == "collective",
                        mark == "access")

    def full_name(self, prefix="PMPI"):
        """PMPI_Send for Send, PMPIX_Barrier_init for MPIX_Barrier_init."""
        if self.name.startswith("MPIX_"):
            return prefix + self.name.removeprefix("MPI")
        return f"{prefix}_{self.name}"

    def other_name(self, prefix="PMPI"):
        """PMPI_Barrier_init for MPIX_Barrier_init, or ""."""
        return f"{prefix}_{self.name.removeprefix('MPIX_')}" if self.name.startswith("MPIX_") else ""

    def field(self):
        return self.name

    def declared(self):
        """For headers that are older, or newer."""
        if not self.newer and not self.other_name():
            return []
        return [f'extern "C" {self.returns} {self.full_name()}({self.parameter_list()});']

    def parameter_list(self):
        return ", ".join(p.declaration for p in self.parameters) or "void"

    def wrapper(self):
        lines = [f"EXPORTED {self.returns} {self.full_name()}({self.parameter_list()})", "{",
                 *self.end_at_once(), "    const Inside inside;"]
        if self.newer:
            lines.append(f'    must_have(stock.{self.field()}, "{self.full_name("MPI")}");')
        if self.fortran:
            lines.append("    " + self.conversion())
        else:
            lines += self.early_end()
            if re.match("File_.*_(shared|ordered)", self.name):
                lines.append("    uses_shared_position(fh);")
            lines += ["    " + line for line in self.counting()]
            for parameter in self.parameters:
                lines += ["    " + line for line in parameter.preparation()]
            lines.append("    " + self.crossing())
        return lines + ["}", self.alias()]

    def end_at_once(self):
        """Tests and probes of what was so in vain a moment ago: rank/fruitless.hpp."""
        if self.name not in ("Test", "Testall", "Testany", "Iprobe"):
            return []
        names = ", ".join(p.name for p in self.parameters)
        return [f"    if (rank::in_vain_again({names}))", "        return MPI_SUCCESS;"]

    def early_end(self):
        """Objects that are handed out several times, and freed as often."""
        if self.name not in ("Group_free", "Type_free", "Errhandler_free"):
            return []
        return [f"    if (was_owed({self.parameters[0].name}))", "        return MPI_SUCCESS;"]

    def of_whom(self):
        """The parameter whose clock a collective counts on."""
        return next(p for p in self.parameters
                    if p.handle in ("MPI_Comm", "MPI_File", "MPI_Win") and p.mark != "out")

    def counting(self):
        """What tells the rank engine of the call, before it."""
        if self.watched:
            names = ", ".join(p.name for p in self.parameters)
            return ["if (rank::engine_counts)", f"    return traffic::{self.field()}({names});"]
        if self.access:
            return ["rank::Operation operation(win, target_rank);"]
        if not self.collective:
            return []
        of_whom = self.of_whom()
        handle = f"*{of_whom.name}" if of_whom.is_pointer else of_whom.name
        if self.made("MPI_Request") and not self.name.endswith("_init"):
            return [f"rank::started({handle});"]
        return [f"rank::Collective turn({handle});"]

    def made(self, handle):
        """The name of the parameter for a new handle of a type, or ""."""
        return next((p.name for p in self.parameters if p.handle == handle and p.mark == "out"), "")

    def told(self, call):
        """What tells the rank engine of it, after it."""
        if self.watched:
            return call
        if name := self.made("MPI_Request"):
            if self.name.endswith("_init"):
                return f"turn.described({', '.join([call, name, 'comm', self.again()] + self.needed())})"
            use = ", rank::Use::file" if self.parameters[0].handle == "MPI_File" else ""
            if use and self.collective:
                use += f", {self.parameters[0].name}"
            call = f"rank::tracked({call}, {name}{use})"
            if self.collective and not use:
                return f"rank::begun({call}, {self.of_whom().name})"
            if not self.made("MPI_Comm"):
                return call
        name = self.made("MPI_Comm")
        if name and not self.collective:
            return f'rank::uncounted({call}, {name}, "{self.full_name("MPI")}")'
        if not self.collective:
            return call
        if name:
            return f"turn.made({call}, {name})"
        return f"turn.over({call})" if self.of_whom().handle == "MPI_Comm" else call

    def again(self):
        """A function that calls the library with what the arguments have become."""
        arguments = [f"stock.{self.field()}"]
        slots = iter(range(2))
        for parameter in self.parameters:
            if parameter.mark == "kept":
                arguments.append(f"kept_again<{parameter.handle}>(made, {next(slots)})")
            elif parameter.handle == "MPI_Info": # a hint, and perhaps not there any more
                arguments.append("real_of(MPI_INFO_NULL)")
            elif parameter.mark == "out":
                arguments.append("real")
            else:
                arguments.append(parameter.argument())
        return ("[=]([[maybe_unused]] Object *made, MPI_Request *real) "
                f"{{ return call({', '.join(arguments)}); }}")

    def needed(self):
        return [p.name for p in self.parameters
                if p.handle in ("MPI_Datatype", "MPI_Op") and not p.length]

    def argument(self, parameter):
        """What the library is given. It compares the two arrays of types of a function."""
        if parameter.length and parameter.name == "recvtypes":
            return "second_place(sendtypes, real_sendtypes, recvtypes, real_recvtypes)"
        return parameter.argument()

    def crossing(self):
        arguments = ", ".join([f"stock.{self.field()}"] + [self.argument(p) for p in self.parameters])
        settled = [p.local() for p in self.parameters if p.mark in ("out", "inout")]
        kept = [p.local() for p in self.parameters if p.mark == "kept"]
        if split := re.fullmatch(r"(File_\w+)_(begin|end)(_c)?", self.name):
            end = f"stock.{split[1]}_end"
            if split[2] == "begin":
                return f"return begin_split(fh, {end}, buf, [&] {{ return call({arguments}); }});"
            return f"return end_split(fh, {end}, buf, status);"
        if kept:
            return self.returning(f"done_keeping(call({arguments}), {', '.join(settled + kept)})")
        if settled:
            return self.returning(f"done(call({arguments}), {', '.join(settled)})")
        return self.returning(f"call({arguments})")

    def returning(self, call):
        told = self.told(call)
        return f"return operation.over({told});" if self.access else f"return {told};"

    def conversion(self):
        parameter = self.parameters[0]
        if self.name.endswith("_c2f"):
            return f"return fortran_number({parameter.name});"
        return f"return from_fortran<{self.returns}>({parameter.name});"

    def alias(self):
        aliases = f"ALIAS({self.full_name('MPI')}, {self.full_name()})"
        if self.other_name():
            aliases += "".join(f"\nALIAS({self.other_name(prefix)}, {self.full_name()})"
                               for prefix in ("PMPI", "MPI"))
        return aliases


@dataclass
class Objects:
    handle: str
    size: int
    symbols: list
    rare: list          # those that not every release has


def statements(path):
    """The lines of a table, with what continues them."""
    text = re.sub(r"^#.*$", "", path.read_text(), flags=re.MULTILINE)
    text = re.sub(r"\n[ ]+", " ", text)
    return [line.strip() for line in text.splitlines() if line.strip()]


def read_objects(path):
    found = []
    for line in statements(path):
        handle, size, *symbols = line.split()
        found.append(Objects(handle, int(size), [symbol.rstrip("?") for symbol in symbols],
                             [symbol[:-1] for symbol in symbols if symbol.endswith("?")]))
    return found


def functions_header(functions):
    return [f"// {NOTICE}", "//", f"// {MADE_BY} The stock library's functions, in the capsule.",
            "#pragma once", "", '#include "mpi/stock/stock.hpp"', "",
            "// NOLINTBEGIN(readability-redundant-declaration): other releases' headers lack them.",
            *(line for f in functions for line in f.declared()),
            "// NOLINTEND(readability-redundant-declaration)", "", "namespace cryo::mpi {", "",
            "struct Functions {",
            *(f"    decltype(&{f.full_name()}) {f.field()};" for f in functions),
            "};", "", "extern Functions stock;", "",
            "// Null, or the name of a function that the library does not have.",
            "const char *load_functions();", "",
            "// What watched functions do while messages are counted (mpi/rank).",
            "namespace traffic {", "",
            *(f"decltype({f.full_name()}) {f.field()};" for f in functions if f.watched), "",
            "} // namespace traffic", "", "} // namespace cryo::mpi"]


def functions_source(functions):
    lines = [f"// {NOTICE}", f"// {MADE_BY}", '#include "mpi/wrap/wrapper.hpp"', "",
             "namespace cryo::mpi {", "", "Functions stock;", "", "const char *load_functions()", "{"]
    for function in functions:
        name = function.full_name()
        lines += [f"    stock.{function.field()} = "
                  f'capsule::function<decltype(&{name})>("{name}");']
        if function.newer:
            continue
        if other := function.other_name():
            lines += [f"    if (stock.{function.field()} == nullptr)",
                      f"        stock.{function.field()} = "
                      f'capsule::function<decltype(&{name})>("{other}");']
        lines += [f"    if (stock.{function.field()} == nullptr)", f'        return "{name}";']
    lines += ["    return nullptr;", "}", "", "} // namespace cryo::mpi", "",
              "using namespace cryo::mpi;", "using cryo::capsule::call;"]
    for function in functions:
        if not function.by_hand:
            lines += ["", *function.wrapper()]
    return lines


def read_functions(path, newer):
    functions = [Function.parse(line) for line in statements(Path(path))]
    for function in functions:
        function.newer = newer
    return functions


def objects_assembly(kinds):
    lines = [f"/* {NOTICE} */", f"/* {MADE_BY} */", "\t.bss"]
    for kind in kinds:
        for symbol in kind.symbols:
            lines += [f"\t.globl {symbol}", f"\t.type {symbol}, @object",
                      f"\t.size {symbol}, {kind.size}", "\t.balign 64", f"{symbol}:",
                      f"\t.skip {kind.size}"]
    return lines + ['\t.section .note.GNU-stack, "", @progbits']


def objects_source(kinds):
    symbols = [(symbol, kind) for kind in kinds for symbol in kind.symbols]
    return [f"// {NOTICE}", f"// {MADE_BY}", '#include "mpi/stock/objects.hpp"', "",
            'extern "C" {',
            *(f"extern cryo::mpi::Object {symbol};" for symbol, _ in symbols), "}", "",
            "namespace cryo::mpi {", "", "const Predefined predefined[] = {",
            *(f'    {{&{symbol}, "{symbol}", 0, Kind::{kind.handle.removeprefix("MPI_")}, '
              f"{'true' if symbol == kind.symbols[0] else 'false'}, "
              f"{'true' if symbol in kind.rare else 'false'}}}," for symbol, kind in symbols),
            "};", "",
            "const size_t predefined_count = sizeof(predefined) / sizeof(predefined[0]);", "",
            "} // namespace cryo::mpi"]


def main(functions_path, newer_path, objects_path, output):
    functions = read_functions(functions_path, False) + read_functions(newer_path, True)
    kinds = read_objects(Path(objects_path))
    for name, lines in (("functions.gen.hpp", functions_header(functions)),
                        ("functions.gen.cpp", functions_source(functions)),
                        ("objects.gen.S", objects_assembly(kinds)),
                        ("objects.gen.cpp", objects_source(kinds))):
        Path(output, name).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 5:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
