// Links between runs and workers of one process, which a test can break.
#pragma once

#include <memory>
#include <string>

#include <penstock/internal/worker_links.h>

namespace penstock::test {

/// Addresses are names, such as "loop:7070". Each direction of a link has a thread, and messages
/// are copied as by a network. Never destroyed.
const WorkerTransport& loop_transport();

/// The state of all current and later links to a port.
enum class Loop {
  works,   ///< messages pass
  frozen,  ///< nothing passes; waiting threads give up after their timeouts
};
void set_loop(const std::string& address, Loop state);
/// Ends all links to that port, like the death of its process. New links are refused until a worker
/// listens there again.
void cut_loop(const std::string& address);
/// From now on, changes one byte of each answer from that address.
void corrupt_loop(const std::string& address, bool corrupt);

}  // namespace penstock::test
