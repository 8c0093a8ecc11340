// How folders, patterns and lists of paths become files: the same for all sources and commands.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <penstock/file_system.h>

namespace penstock {

/// Expands braces as a shell does, in its order. Numbers keep leading zeros. Other braces are left
/// as they are, and so are those in the query of a URL. Throws Error{out_of_range} for more than a
/// million patterns, and for more than 100 braces within each other.
///
///     expand_braces("{b,a}-{08..10}.tar");   // b-08.tar b-09.tar b-10.tar a-08.tar …
std::vector<std::string> expand_braces(const std::string& pattern);

/// Returns the patterns that `pattern` stands for by its braces, or itself if a file or folder on
/// this machine has that name.
std::vector<std::string> expand_pattern(FileSystem& files, const std::string& pattern);

/// Returns the files that match a pattern with braces: those that `FileSystem::glob` returns for
/// each pattern of `expand_pattern`, in its order. Throws Error{not_found} that names the patterns
/// without a match.
std::vector<std::string> find_files(FileSystem& files, const std::string& pattern,
                                    bool hidden = false);

/// Splits paths and patterns at the commas between them. A comma is part of a path if it is within
/// braces, or if a file or folder matches the path with the comma.
///
///     split_paths(files, "a,b.tar,{c,d}.tar");   // "a,b.tar" "{c,d}.tar", if there is an a,b.tar
std::vector<std::string> split_paths(FileSystem& files, std::string_view text);

/// Returns true if a file that `FileSystem::list(folder)` returned is hidden: its name, or that of
/// a folder between it and `folder`, begins with a dot.
///
///     is_hidden("photos/cat/.git/x.jpg", "photos");   // true
bool is_hidden(std::string_view path, std::string_view folder);

}  // namespace penstock
