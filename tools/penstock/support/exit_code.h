// The exit codes of the program.
#pragma once

namespace penstock::tool {

enum ExitCode : int {
  kOk = 0,
  kFailed = 1,       ///< the run failed, or found bad data
  kUsage = 2,        ///< the command line or the description of the pipeline is wrong
  kDeviceLost = 70,  ///< a device was lost
  kNoProgress = 75,  ///< nothing was delivered for too long
  kDiverged = 76,    ///< training had a loss, gradients or variables that are no numbers
  kInterrupted = 130,
  kTerminated = 143,
};

}  // namespace penstock::tool
