// The environment variables of job launchers that number their processes.
#pragma once

namespace penstock {

/// A launcher, and the names of its variables: this process's number and the number of processes,
/// in all and on this host. Reports take their rank from them, and `cluster` all that it knows.
struct LauncherVariables {
  const char* launcher;
  const char* rank;
  const char* world;
  const char* local_rank;
  const char* local_world;
};

inline constexpr LauncherVariables kTorchrun{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK",
                                             "LOCAL_WORLD_SIZE"};
inline constexpr LauncherVariables kOpenMpi{"Open MPI", "OMPI_COMM_WORLD_RANK",
                                            "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                                            "OMPI_COMM_WORLD_LOCAL_SIZE"};
/// The variable in which Open MPI's own launcher repeats the rank. The two have to agree.
inline constexpr const char* kPmixRank = "PMIX_RANK";
inline constexpr LauncherVariables kPmi{"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
                                        "MPI_LOCALNRANKS"};
/// Slurm's variables, for a job step only, which kSlurmStep names: shells of an allocation have
/// numbers too. Slurm does not tell how many processes are on a host.
inline constexpr LauncherVariables kSlurm{"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID",
                                          "-"};
inline constexpr const char* kSlurmStep = "SLURM_STEP_ID";

}  // namespace penstock
