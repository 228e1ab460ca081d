#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a header of the style sheet, with the digest by which a page's policy allows that sheet alone.

    embed.py page.css style.gen.hpp
"""
import base64
import hashlib
import re
import sys


def main():
    source, made = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        sheet = re.sub(r"/\*.*?\*/\s*", "", file.read(), flags=re.S)
    if "</" in sheet or ')css"' in sheet:
        sys.exit(f"{source}: would end the element, or the literal, that it is in")
    digest = base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode()
    with open(made, "w", encoding="utf-8") as file:
        file.write(f"""// SPDX-License-Identifier: Apache-2.0
// Made by embed.py
#pragma once

#include <string_view>

namespace cryo::inspect {{

inline constexpr std::string_view kStyleSheet = R"css({sheet})css";
inline constexpr std::string_view kStyleDigest = "sha256-{digest}";

}} // namespace cryo::inspect
""")


main()
