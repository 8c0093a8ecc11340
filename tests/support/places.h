// The places of this checkout and of its program. Only one file is compiled with them, so that all
// other tests compile alike in every checkout, and one compiler cache serves them all.
#pragma once

#include <string>

namespace penstock::test {

/// The root of the sources.
std::string source_dir();
/// The program `penstock` of this build.
std::string program_path();

}  // namespace penstock::test
