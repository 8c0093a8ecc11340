// The rank of this process in its job.
#pragma once

#include <string>
#include <string_view>

namespace penstock {

/// Returns the rank of `set_report_rank`, or else the one that torchrun, Open MPI, PMI or a step of
/// Slurm gives in the environment; 0 if none of them does. Thread-safe.
int rank_of_process();
/// Returns the number of ranks in the job: that of `set_report_rank`, or else that of a launcher
/// that gives this rank; 0 if it is not known. Thread-safe.
int ranks_of_job();

/// Returns the seconds of `set_report_exposed`; negative if it was not called. Thread-safe.
double exposed_seconds() noexcept;

/// Returns the pattern with `%p` replaced by the process's number, `%r` by its rank and `%%` by a
/// percent sign.
std::string with_process(std::string_view pattern);

}  // namespace penstock
