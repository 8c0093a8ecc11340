// The paths of this checkout and of its build.
#pragma once

#include <string>

namespace penstock::test {

/// The root of the sources.
std::string source_dir();
/// A program or module of this build, by its file name.
std::string built(const std::string& name);
/// The program `penstock` of this build.
std::string program_path();

}  // namespace penstock::test
