// The entry point that all benchmark programs share.
#pragma once

namespace penstock::bench {

/// The program, defined by each benchmark. If it throws, the error is printed and the exit code is
/// 1.
int run(int argc, char** argv);

}  // namespace penstock::bench
