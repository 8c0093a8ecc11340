// The module's functions for runs and input workers: see penstock::WorkerTransport.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <penstock/internal/worker_links.h>

namespace penstock::cluster {

std::unique_ptr<WorkerLink> connect_to_worker(const std::string& address,
                                              const WorkerSecurity& security,
                                              std::chrono::milliseconds timeout,
                                              LinkListener& listener);
std::unique_ptr<WorkerPort> listen_for_runs(const std::string& address,
                                            const WorkerSecurity& security, AcceptLink accept);
std::unique_ptr<WorkerWatch> watch_workers(
    const std::string& url, const WorkerSecurity& security,
    std::function<void(const std::vector<std::string>&)> changed);
std::unique_ptr<WorkerWatch> announce_worker(const std::string& url, const WorkerSecurity& security,
                                             std::chrono::milliseconds timeout,
                                             const std::string& address);

}  // namespace penstock::cluster
