#!/usr/bin/env python3
"""Writes the comments of public headers as a table of C++, for the docstrings of the Python module.

    docstrings.py HEADER... -o docstrings.inc

The name of a method is "Class::method", that of a function "function". The fields of an options
struct follow the comment of each function that takes it.
"""

import re
import sys
import textwrap

DECLARED = re.compile(
    r"^(?:template <[^;{]*?> ?)?(?:(?:explicit|static|inline|virtual|constexpr|\[\[nodiscard\]\]) )*"
    r"(?:[\w:<>,&* ]+[ &*])?(operator\[\]|~?\w+)\(([^;{]*)")


HIDDEN = {"files", "limits", "slot_allocator"}  # fields that Python does not have


def declarations(path):
    """Yields (class, declaration, comment) for each commented declaration of a header; for a class
    itself, (its base, its name, comment)."""
    scope, comment, depth, scopes, pending = None, [], 0, [], ""
    for line in open(path, encoding="utf-8"):
        text = line.strip()
        if text.startswith("///") and not text.startswith("///<"):
            comment.append(text[3:].strip())
            continue
        if text.startswith("//") or text.startswith("#"):
            continue
        code, _, after = text.partition("///<")
        head = re.match(r"(?:class|struct)(?: alignas\(\d+\))? (\w+)(?: final)?(?: : (?:public )?(\w+)[^{;]*)? ?\{", code)
        if head:
            yield head.group(2), head.group(1), " ".join(comment)
            scopes.append((head.group(1), depth))
        elif code or after:
            pending = (pending + " " + code).strip()
            if after or re.search(r"[;{}]\s*$", code):
                words = " ".join(comment + ([after.strip()] if after else []))
                scope = scopes[-1][0] if scopes else None
                if words and pending:
                    yield scope, pending, words
                pending = ""
        depth += code.count("{") - code.count("}")
        if scopes and depth <= scopes[-1][1]:
            scopes.pop()
        if not pending:
            comment = []


def paragraphs(comment):
    """Returns a comment as prose of 88 columns, as help() shows it."""
    return textwrap.fill(re.sub(r"\s+", " ", comment).strip(), 88)


def docstrings(paths):
    """Returns the comment of each class, method and function by name."""
    found, fields, takes, bases, seen = {}, {}, {}, {}, {}
    for path in paths:
        for scope, declared, comment in declarations(path):
            comment = paragraphs(comment)
            if re.fullmatch(r"\w+", declared):
                found.setdefault(declared, comment)
                bases[declared] = scope
                continue
            match = DECLARED.match(declared)
            if match and "(" in declared.split("{}")[0].split("=")[0]:
                name = match.group(1) if scope is None else f"{scope}::{match.group(1)}"
                count = seen[name] = seen.get(name, 0) + 1
                name += f"#{count}" if count > 1 else ""  # an overload
                found.setdefault(name, comment)
                takes.setdefault(name, re.findall(r"\b(\w+Options)\b", match.group(2)))
            elif scope:
                plain = re.sub(r"<[^<>]*>", "", re.sub(r"<[^<>]*>", "", declared))
                for field in re.findall(r"(\w+)\s*(?:\{[^}]*\}|= [^,;]*)?(?=[,;])", plain):
                    fields.setdefault(scope, []).append((field, comment))
                    found.setdefault(f"{scope}::{field}", comment)
    for name, options in takes.items():
        rows = [textwrap.fill(f"{field}: {comment}", 88, subsequent_indent="  ")
                for struct in options
                for field, comment in fields.get(struct, []) + fields.get(bases.get(struct), [])
                if field not in HIDDEN]
        if rows:
            found[name] += "\n\n" + "\n".join(rows)
    return found


def main():
    *headers, _, output = sys.argv[1:]
    with open(output, "w", encoding="utf-8") as out:
        for name, text in sorted(docstrings(headers).items()):
            out.write(f'{{"{name}", R"doc({text})doc"}},\n')


if __name__ == "__main__":
    main()
