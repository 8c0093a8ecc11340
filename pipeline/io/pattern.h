// Shell patterns, the same in all file systems.
#pragma once

#include <string>
#include <string_view>

namespace penstock {

/// Returns true if `path` has a character that is special in patterns.
bool has_pattern(std::string_view path) noexcept;

/// Returns true if a path matches a pattern, by the rules of FileSystem::glob.
///
///     matches("photos/**/*.jpg", "photos/a/b/1.jpg", false);   // true
///     matches("photos/*.jpg", "photos/._1.jpg", false);        // false
bool matches(const std::string& pattern, const std::string& path, bool hidden);

/// The part of a pattern that stands for any number of folders.
inline constexpr std::string_view kAnyFolders = "**";

}  // namespace penstock
