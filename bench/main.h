// What the benchmarks' programs have in common.
#pragma once

namespace penstock::bench {

/// The program; defined by each benchmark. What it throws is printed, and ends it with 1.
int run(int argc, char** argv);

}  // namespace penstock::bench
