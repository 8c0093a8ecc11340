// A command that prints credentials: credential_process of a profile.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "pipeline/http/credentials.h"

namespace penstock::http {

/// Splits a command line into words at blanks. '…', "…" and a backslash keep blanks. No other
/// character is special, since no shell runs. Throws Error{unavailable} for an unclosed quote.
std::vector<std::string> command_words(const std::string& line);

/// Runs the command without a shell, and returns the credentials in the JSON that it prints. Kills
/// it if it takes longer than `limit` or prints more than 64 KiB. Throws Error{unavailable}, whose
/// message does not show the output. Source:
/// https://docs.aws.amazon.com/sdkref/latest/guide/feature-process-credentials.html
LentCredentials run_credential_process(const std::string& line,
                                       std::chrono::milliseconds limit = std::chrono::seconds(20));

}  // namespace penstock::http
